// Which processes a store admits, and what it says about the others.
#include <deque>

#include "runtime/rendezvous/store_meeting.hpp"

namespace ringsched {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

TEST_F(StoreMeeting, HandsRoundWhatEachTells) {
  open(5);
  std::vector<std::future<bool>> all;
  for (std::uint32_t r = 0; r < 5; ++r)
    all.push_back(std::async(std::launch::async, [this, r] {
      Member m(options(r, 5), [](const std::string&, int) {});
      bool right = true;
      for (int round = 0; round < 20; ++round) {
        const std::string text(r * 100'000 + static_cast<std::uint32_t>(round),
                               static_cast<char>('a' + r));
        const std::vector<std::string> got = m.gather(text);
        right = right && got.size() == 5 && got[r] == text;
        for (std::uint32_t o = 0; o < 5; ++o)
          right = right && got[o] == std::string(o * 100'000 + static_cast<std::uint32_t>(round),
                                                 static_cast<char>('a' + o));
      }
      const Member::Time t = m.ask_time();  // of the same clock
      right = right && t.asked <= t.theirs && t.theirs <= t.answered;
      m.leave();
      return right;
    }));
  for (auto& one : all) EXPECT_TRUE(one.get());
  EXPECT_TRUE(log().empty());
}

TEST_F(StoreMeeting, StrangersAreRefusedAndSaidAndDisturbNobody) {
  open(2, "secret");
  const Socket silent = stranger();
  const Socket web = stranger();
  say(web, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(hear(web), HasSubstr("not a ringsched message"));
  const Socket large = stranger();
  say(large, frame(FrameKind::Hello, 0, std::string(600, 'x')));
  EXPECT_THAT(hear(large), HasSubstr("where 512 are allowed"));
  const Socket early = stranger();
  say(early, frame(FrameKind::Put, 0, "not yet"));
  EXPECT_THAT(hear(early), HasSubstr("does not identify itself"));
  const Socket guess = stranger();
  say(guess, frame(FrameKind::Hello, 0, greeting_text({1, 2, true, std::string(16, 'n'), "h"})) +
                 frame(FrameKind::Proof, 0, std::string(32, 'p')));
  EXPECT_THAT(hear(guess), HasSubstr("does not know the secret (RINGSCHED_SECRET)"));
  all_join(2, "secret");
  EXPECT_EQ(log().size(), 4u);
  EXPECT_TRUE(none_ended());
}

TEST_F(StoreMeeting, ASecretThatOnlyOneHasOrThatIsAnotherIsNamed) {
  open(2, "secret");
  EXPECT_THAT(joins(options(1, 2)).get(),
              AllOf(HasSubstr("refused: "), HasSubstr("it has no secret")));
  EXPECT_THAT(joins(options(1, 2, "other")).get(),
              AllOf(HasSubstr("refused: "),
                    HasSubstr("has another secret (RINGSCHED_SECRET) than this process")));
  open(2);
  EXPECT_THAT(joins(options(1, 2, "secret")).get(), HasSubstr("process 0 has none"));
}

TEST_F(StoreMeeting, TwoOfOneNumberEndTheRun) {
  open(3);
  const Socket zero = admitted(0, 3), one = admitted(1, 3);
  EXPECT_THAT(joins(options(1, 3)).get(), HasSubstr("two processes say that they are process 1"));
  store_.reset();  // which closes connections
  for (const Socket* s : {&zero, &one})
    EXPECT_THAT(hear(*s), HasSubstr("two processes say that they are process 1: host, 127.0.0.1:"));
}

TEST_F(StoreMeeting, OneThatCannotFitEndsTheRun) {
  struct Case {
    std::function<std::string()> comes;
    const char* why;
  };
  for (const Case& c :
       {Case{[&] { return joins(options(1, 4)).get(); }, "is one of 4, and process 0 one of 3"},
        Case{[&] { return joins(options(1, 3, "s")).get(); }, "and process 0 has none"},
        Case{[&] { return hear(proved(1, 3, "", 3)); },
             "speaks version 3 of the protocol, and process 0 version 2"}}) {
    open(3);
    const Socket zero = admitted(0, 3);
    EXPECT_THAT(c.comes(), HasSubstr(c.why));
    store_.reset();
    EXPECT_THAT(hear(zero), AllOf(HasSubstr("process 1 ("), HasSubstr(c.why)));
    EXPECT_TRUE(log().empty());
  }
}

TEST_F(StoreMeeting, OneThatCannotFitMustKnowTheSecretToEndTheRun) {
  open(3, "secret");
  const Socket zero = admitted(0, 3, "secret");
  const Socket guess = stranger();
  say(guess, frame(FrameKind::Hello, 0, greeting_text({1, 4, true, std::string(16, 'n'), "h"})) +
                 frame(FrameKind::Proof, 0, std::string(32, 'p')));
  EXPECT_THAT(hear(guess), HasSubstr("does not know the secret (RINGSCHED_SECRET)"));
  auto one = joins(options(1, 3, "secret")), two = joins(options(2, 3, "secret"));
  EXPECT_EQ(one.get(), "joined");
  EXPECT_EQ(two.get(), "joined");
}

TEST_F(StoreMeeting, OneThatKnowsTheSecretAndCannotFitEndsTheRun) {
  open(3, "secret");
  const Socket zero = admitted(0, 3, "secret");
  EXPECT_THAT(hear(proved(1, 3, "secret", 9)), HasSubstr("speaks version 9"));
  store_.reset();
  EXPECT_THAT(hear(zero), HasSubstr("speaks version 9"));
}

// Idle visitors keep nobody out, however many they are.
TEST_F(StoreMeeting, IdleConnectionsMakeRoom) {
  open(2);
  std::vector<Socket> idle(200);
  for (Socket& s : idle) s = stranger();
  all_join(2);
  EXPECT_EQ(hear(idle[0]), "");
  EXPECT_THAT(log(), Each(AnyOf(HasSubstr("it did not identify itself, and others connected"),
                                HasSubstr("further messages are suppressed"))));
}

TEST_F(StoreMeeting, WhoComesAmongManyOthersIsLetIn) {
  open(2);
  std::promise<void> enough;
  std::thread others([this, over = enough.get_future()] {
    std::deque<Socket> some;
    while (over.wait_for(0s) != std::future_status::ready) {
      some.push_back(stranger());
      if (some.size() > 300) some.pop_front();
    }
  });
  all_join(2);
  enough.set_value();
  others.join();
}

TEST_F(StoreMeeting, WhoComesLaterIsRefusedAndTheRunGoesOn) {
  open(2);
  all_join(2);
  EXPECT_THAT(joins(options(1, 2)).get(), HasSubstr("all 2 processes are there"));
  EXPECT_TRUE(none_ended());
}

}  // namespace
}  // namespace ringsched
