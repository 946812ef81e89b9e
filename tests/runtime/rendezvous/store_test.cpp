// A store and the processes that meet there, by real sockets: those that belong there, and others.
#include "rendezvous/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <set>

#include "rendezvous/member.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

class Meeting : public testing::Test {
 protected:
  void open(std::uint32_t size, const std::string& secret = "",
            std::chrono::nanoseconds patience = 20s, std::chrono::nanoseconds silence = 20s) {
    StoreOptions o;
    o.at = {"127.0.0.1", 0};
    o.size = size;
    o.secret = secret;
    o.patience = patience;
    o.silence = silence;
    store_ = std::make_unique<Store>(o, [this](const std::string& what) {
      const std::lock_guard lock(guard_);
      log_.push_back(what);
      news_.notify_all();
    });
  }
  MemberOptions options(std::uint32_t rank, std::uint32_t size, const std::string& secret = "") {
    return {store_->address(), rank, size, secret, 20s, 20s};
  }
  // Starts to join; what became of it.
  std::future<std::string> joins(MemberOptions o) {
    return std::async(std::launch::async, [this, o]() -> std::string {
      try {
        auto m = std::make_unique<Member>(o, [this](const std::string& why) {
          const std::lock_guard lock(guard_);
          ended_.push_back(why);
          news_.notify_all();
        });
        const std::lock_guard lock(guard_);
        members_.push_back(std::move(m));
        return "joined";
      } catch (const Error& e) {
        return std::string("refused: ") + e.what();
      } catch (const RunFailed& e) {
        return std::string("failed: ") + e.what();
      }
    });
  }
  bool none_ended() {
    const std::lock_guard lock(guard_);
    return ended_.empty();
  }
  void all_join(std::uint32_t size, const std::string& secret = "") {
    std::vector<std::future<std::string>> all;
    for (std::uint32_t r = 0; r < size; ++r) all.push_back(joins(options(r, size, secret)));
    for (auto& one : all) ASSERT_EQ(one.get(), "joined");
  }
  // A connection that says what it likes.
  Socket stranger() {
    std::string why;
    Socket s = connect_to(store_->address(), 5000ms, why);
    EXPECT_TRUE(s) << why;
    return s;
  }
  void say(const Socket& s, const std::string& text) {
    EXPECT_TRUE(send_all(s, text, std::chrono::steady_clock::now() + 5s));
  }
  // One that has proved to know the secret, by whatever version of the protocol.
  Socket proved(std::uint32_t rank, std::uint32_t size, const std::string& secret = "",
                char version = kFrameVersion) {
    const auto of_version = [version](std::string bytes) {
      bytes[4] = version;
      return with_checksums(bytes.substr(0, kFrameHeader - 8), bytes.substr(kFrameHeader));
    };
    Socket s = stranger();
    const std::string hello =
        greeting_text({rank, size, !secret.empty(), std::string(16, 'n'), "host"});
    say(s, of_version(frame(FrameKind::Hello, 0, hello)));
    std::string challenge(kFrameHeader + kNonce + 32, '\0');
    EXPECT_TRUE(
        receive_all(s, challenge.data(), challenge.size(), std::chrono::steady_clock::now() + 20s));
    const std::string nonce = challenge.substr(kFrameHeader, kNonce);
    EXPECT_EQ(challenge.substr(kFrameHeader + kNonce), store_proof(secret, hello, nonce));
    say(s, of_version(frame(FrameKind::Proof, 0, process_proof(secret, hello, nonce))));
    return s;
  }
  // The same, once it is one of the run: those are told every now and then that the store is there.
  Socket admitted(std::uint32_t rank, std::uint32_t size, const std::string& secret = "") {
    Socket s = proved(rank, size, secret);
    std::string news(kFrameHeader, '\0');
    EXPECT_TRUE(receive_all(s, news.data(), news.size(), std::chrono::steady_clock::now() + 20s));
    EXPECT_EQ(news, frame(FrameKind::Alive));
    return s;
  }
  // All that it is sent until it is closed.
  std::string hear(const Socket& s) {
    std::string out;
    char c = 0;
    while (receive_all(s, &c, 1, std::chrono::steady_clock::now() + 20s)) out += c;
    return out;
  }
  std::vector<std::string> log() {
    const std::lock_guard lock(guard_);
    return log_;
  }
  std::size_t told(const std::string& text) const {  // guarded
    return static_cast<std::size_t>(std::count_if(
        ended_.begin(), ended_.end(), [&](auto& why) { return why.find(text) != why.npos; }));
  }
  // Until so many have been told that.
  void until_told(const std::string& text, std::size_t times) {
    std::unique_lock lock(guard_);
    EXPECT_TRUE(news_.wait_for(lock, 20s, [&] { return told(text) >= times; })) << text;
  }

  std::mutex guard_;
  std::condition_variable news_;
  std::vector<std::string> log_, ended_;
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(Meeting, HandsRoundWhatEachTells) {
  open(5);
  std::vector<std::future<bool>> all;
  for (std::uint32_t r = 0; r < 5; ++r)
    all.push_back(std::async(std::launch::async, [this, r] {
      Member m(options(r, 5), [](const std::string&) {});
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

TEST_F(Meeting, StrangersAreRefusedAndSaidAndDisturbNobody) {
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
  EXPECT_THAT(hear(guess), HasSubstr("does not know the secret"));
  all_join(2, "secret");
  EXPECT_EQ(log().size(), 4u);
  EXPECT_TRUE(none_ended());
}

TEST_F(Meeting, ASecretThatOnlyOneHasOrThatIsAnotherIsNamed) {
  open(2, "secret");
  EXPECT_THAT(joins(options(1, 2)).get(),
              AllOf(HasSubstr("refused: "), HasSubstr("it has no secret")));
  EXPECT_THAT(joins(options(1, 2, "other")).get(),
              AllOf(HasSubstr("refused: "), HasSubstr("does not know the secret")));
  open(2);
  EXPECT_THAT(joins(options(1, 2, "secret")).get(), HasSubstr("process 0 has none"));
}

TEST_F(Meeting, TwoOfOneNumberEndTheRun) {
  open(3);
  const Socket zero = admitted(0, 3), one = admitted(1, 3);
  EXPECT_THAT(joins(options(1, 3)).get(), HasSubstr("two processes say that they are process 1"));
  store_.reset();  // which closes connections
  for (const Socket* s : {&zero, &one})
    EXPECT_THAT(hear(*s), HasSubstr("two processes say that they are process 1: host, 127.0.0.1:"));
}

TEST_F(Meeting, OneThatCannotFitEndsTheRun) {
  struct Case {
    std::function<std::string()> comes;
    const char* why;
  };
  for (const Case& c :
       {Case{[&] { return joins(options(1, 4)).get(); }, "is one of 4, and process 0 one of 3"},
        Case{[&] { return joins(options(1, 3, "s")).get(); }, "and process 0 has none"},
        Case{[&] { return hear(proved(1, 3, "", 3)); },
             "speaks version 3 of what processes say to each other, and process 0 version 2"}}) {
    open(3);
    const Socket zero = admitted(0, 3);
    EXPECT_THAT(c.comes(), HasSubstr(c.why));
    store_.reset();
    EXPECT_THAT(hear(zero), AllOf(HasSubstr("process 1 ("), HasSubstr(c.why)));
    EXPECT_TRUE(log().empty());
  }
}

TEST_F(Meeting, OneThatCannotFitMustKnowTheSecretToEndTheRun) {
  open(3, "secret");
  const Socket zero = admitted(0, 3, "secret");
  const Socket guess = stranger();
  say(guess, frame(FrameKind::Hello, 0, greeting_text({1, 4, true, std::string(16, 'n'), "h"})) +
                 frame(FrameKind::Proof, 0, std::string(32, 'p')));
  EXPECT_THAT(hear(guess), HasSubstr("does not know the secret"));
  auto one = joins(options(1, 3, "secret")), two = joins(options(2, 3, "secret"));
  EXPECT_EQ(one.get(), "joined");
  EXPECT_EQ(two.get(), "joined");
}

TEST_F(Meeting, OneThatKnowsTheSecretAndCannotFitEndsTheRun) {
  open(3, "secret");
  const Socket zero = admitted(0, 3, "secret");
  EXPECT_THAT(hear(proved(1, 3, "secret", 9)), HasSubstr("speaks version 9"));
  store_.reset();
  EXPECT_THAT(hear(zero), HasSubstr("speaks version 9"));
}

// Idle visitors keep nobody out, however many they are.
TEST_F(Meeting, IdleConnectionsMakeRoom) {
  open(2);
  std::vector<Socket> idle(200);
  for (Socket& s : idle) s = stranger();
  all_join(2);
  EXPECT_EQ(hear(idle[0]), "");
  EXPECT_THAT(log(), Each(AnyOf(HasSubstr("it did not identify itself, and others connected"),
                                HasSubstr("further messages suppressed"))));
}

TEST_F(Meeting, WhoComesAmongManyOthersIsLetIn) {
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

TEST_F(Meeting, WhoComesLaterIsRefusedAndTheRunGoesOn) {
  open(2);
  all_join(2);
  EXPECT_THAT(joins(options(1, 2)).get(), HasSubstr("all 2 processes are there"));
  EXPECT_TRUE(none_ended());
}

TEST_F(Meeting, WhoDoesNotComeIsNamed) {
  open(4, "", 700ms);
  auto zero = joins(options(0, 4)), two = joins(options(2, 4));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("failed: processes 1, 3 did not come to 127.0.0.1:"),
                                HasSubstr("within 700 ms")));
  EXPECT_THAT(two.get(), HasSubstr("processes 1, 3"));
}

TEST_F(Meeting, WhoDoesNotComeButWasRefusedIsNamedWithTheReason) {
  open(2, "secret", 700ms);
  auto zero = joins(options(0, 2, "secret"));
  EXPECT_THAT(joins(options(1, 2, "other")).get(), HasSubstr("refused: "));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("failed: process 1 did not come to 127.0.0.1:"),
                                HasSubstr("; one that says it is process 1 was refused: "),
                                HasSubstr("proved to know the secret (RINGSCHED_SECRET)")));
}

TEST_F(Meeting, WhoDoesNotComeToARoundIsNamed) {
  open(3, "", 700ms);
  all_join(3);
  std::vector<std::future<std::string>> all;
  for (int i : {0, 1})  // in whatever order they have joined
    all.push_back(std::async(std::launch::async, [&, i]() -> std::string {
      try {
        members_[static_cast<std::size_t>(i)]->gather("here");
      } catch (const RunFailed& e) {
        return e.what();
      }
      return "";
    }));
  for (auto& one : all) EXPECT_THAT(one.get(), HasSubstr("did not come to meet the others within"));
}

// A process that comes when the run has failed fails as the others do; its input may be good.
TEST_F(Meeting, WhoComesAfterTheEndIsToldHowTheRunEnded) {
  open(2);
  all_join(2);
  members_.pop_back();  // without leave
  until_told("is gone: its connection closed", 1);
  EXPECT_THAT(joins(options(1, 2)).get(),
              AllOf(HasSubstr("failed: process 0 at "), HasSubstr(" refuses this one: process "),
                    HasSubstr("is gone: its connection closed")));
}

// Nobody can tell which of them is wrong, so all that were there are told that their input is bad.
TEST_F(Meeting, WhatDoesNotFitIsBadInputOfAllWhoAreThere) {
  for (std::uint32_t size : {3u, 4u}) {  // the same number twice, another number of processes
    open(3);
    auto zero = joins(options(0, 3));
    const Socket one = admitted(1, 3);
    EXPECT_THAT(joins(options(1, size)).get(),
                AllOf(HasSubstr("refused: process 0 at "), HasSubstr(" refuses this one: ")));
    EXPECT_THAT(zero.get(), AllOf(HasSubstr("refused: "), HasSubstr("process 1")));
    EXPECT_THAT(joins(options(2, 3)).get(),
                AllOf(HasSubstr("refused: process 0 at "), HasSubstr(" refuses this one: ")));
  }
}

TEST_F(Meeting, AChangedBitEndsTheRun) {
  open(2);
  auto zero = joins(options(0, 2));
  const Socket one = proved(1, 2);
  EXPECT_EQ(zero.get(), "joined");
  std::string put = frame(FrameKind::Put, 0, "a text");
  put.back() ^= 1;
  say(one, put);
  until_told("was refused: a message of 6 bytes that was changed on the way", 1);
}

// Before the handshake it is a stranger that sends something else.
TEST_F(Meeting, AChangedBitInTheFirstLettersIsOneToo) {
  open(2);
  auto zero = joins(options(0, 2));
  const Socket one = proved(1, 2);
  EXPECT_EQ(zero.get(), "joined");
  std::string put = frame(FrameKind::Put, 0, "a text");
  put[0] ^= 1;
  say(one, put);
  until_told("was refused: a message that was changed on the way: its first bytes are wrong", 1);
}

TEST_F(Meeting, AConnectionThatClosesEndsTheRunAtOnce) {
  open(3);
  all_join(3);
  members_.pop_back();  // without leave
  until_told("is gone: its connection closed", 2);
  EXPECT_THROW(members_[0]->gather("x"), RunFailed);
}

// Names itself as it should, and then nothing any more.
TEST_F(Meeting, OneThatIsSilentEndsTheRun) {
  open(2, "", 20s, 1s);
  auto zero = joins(options(0, 2));
  const Socket s = proved(1, 2);
  EXPECT_EQ(zero.get(), "joined");
  until_told("process 1 (host, ", 1);
  until_told("nothing was heard of it for 1.00 s", 1);
}

TEST_F(Meeting, AStoreThatIsGoneIsNoticed) {
  open(1);
  all_join(1);
  store_.reset();
  until_told("process 0 (which keeps the store at ", 1);
}

TEST_F(Meeting, LastWordsAreKept) {
  open(3);
  all_join(3);
  members_[0]->farewell(texts_body({"a reason; pending: much", "times"}));
  until_told("gave up: a reason", 3);
  {
    const std::lock_guard lock(guard_);
    EXPECT_EQ(told("pending"), 0u);
  }
  members_[1]->farewell(texts_body({"another", ""}));
  members_.pop_back();
  const std::vector<LastWord> words = store_->last_words(20s);
  std::multiset<std::string> said;
  for (const LastWord& w : words)
    said.insert(w.state == LastWord::State::Said ? parse_texts(w.text)->at(0) : w.text);
  EXPECT_EQ(said, (std::multiset<std::string>{"a reason; pending: much", "another",
                                              "its connection closed"}));
}

TEST_F(Meeting, AnAddressThatIsTakenIsNamed) {
  open(1);
  try {
    Store second({store_->address(), 1, "", 1s, 1s}, [](const std::string&) {});
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), HasSubstr(store_->address().text() + ": Address already in use"));
  }
}

TEST_F(Meeting, NobodyAtTheAddressIsSaidInTime) {
  Address at;
  {
    const Socket s = listen_at({"127.0.0.1", 0});
    at = local_address(s);
  }
  try {
    Member m({at, 1, 2, "", 300ms, 1s}, [](const std::string&) {});
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("was not found at " + at.text() + " within 300 ms"),
                                HasSubstr("refused")));
  }
}

TEST_F(Meeting, SomebodyElseAtTheAddressIsSaid) {
  const Socket listening = listen_at({"127.0.0.1", 0});
  std::thread other([&] {
    Socket s;
    while (!s) s = accept_from(listening);
    send_all(s, "220 mail ready\r\n", std::chrono::steady_clock::now() + 5s);
    hear(s);
  });
  try {
    Member m({local_address(listening), 1, 2, "", 20s, 1s}, [](const std::string&) {});
    ADD_FAILURE();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("it is not a ringsched process 0"), HasSubstr("220 mail")));
  }
  other.join();
}

// In place of process 0: takes the calls of one process.
class StoreOfTest {
 public:
  Address address() const { return local_address(listening_); }
  // Until the process has proved to know the secret, which is none.
  Socket called() {
    Socket s;
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!s && std::chrono::steady_clock::now() < until) s = accept_from(listening_);
    const std::string hello = next_body(s), nonce(kNonce, 'n');
    say(s, frame(FrameKind::Challenge, 0, nonce + store_proof("", hello, nonce)));
    next_body(s);
    return s;
  }
  static void say(const Socket& s, const std::string& text) {
    EXPECT_TRUE(send_all(s, text, std::chrono::steady_clock::now() + 20s));
  }
  static std::string next_body(const Socket& s) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    std::string head(kFrameHeader, '\0');
    EXPECT_TRUE(receive_all(s, head.data(), head.size(), until));
    std::string_view length = std::string_view(head).substr(kFrameLength);
    std::string body(take_number(length, 4), '\0');
    EXPECT_TRUE(receive_all(s, body.data(), body.size(), until));
    return body;
  }

 private:
  const Socket listening_ = listen_at({"127.0.0.1", 0});
};

// The store may have taken it for a stranger, if the way is slow, and closed the connection.
TEST_F(Meeting, OneThatIsNotToldThatItIsInCallsAgain) {
  StoreOfTest store;
  auto one = joins({store.address(), 1, 2, "", 20s, 20s});
  store.called().close();
  const Socket s = store.called();
  store.say(s, frame(FrameKind::Alive) + frame(FrameKind::Welcome, 2));
  EXPECT_EQ(one.get(), "joined");
  EXPECT_TRUE(none_ended());
}

TEST_F(Meeting, AnswersOfTheStoreThatCannotBeReadEndTheRun) {
  const std::string one_text = texts_body({"x"}), two_texts = texts_body({"x", "y"});
  for (const std::string& lie :
       {frame(FrameKind::All, 0, "x"), frame(FrameKind::All, 0, one_text),
        frame(FrameKind::All, 1, two_texts), frame(FrameKind::Time, 0, "1234567"),
        frame(FrameKind::Time, 1, "12345678")}) {
    StoreOfTest store;
    auto one = joins({store.address(), 1, 2, "", 20s, 20s});
    const Socket s = store.called();
    store.say(s, frame(FrameKind::Alive) + frame(FrameKind::Welcome, 2));
    EXPECT_EQ(one.get(), "joined");
    store.say(s, lie);
    try {
      members_.back()->gather("text");
      ADD_FAILURE();
    } catch (const RunFailed& e) {
      EXPECT_THAT(e.what(), HasSubstr("process 0 sends what cannot be read: message "));
    }
  }
}

TEST(Addresses, AreReadOrRefused) {
  EXPECT_EQ(parse_address("host:1", "--master").text(), "host:1");
  EXPECT_EQ(parse_address("[::1]:29500", "--master").text(), "[::1]:29500");
  for (const char* bad : {"", "host", "host:", ":5", "host:0", "host:65536", "host:x", "host:1x"})
    EXPECT_THROW(parse_address(bad, "--master"), Error) << bad;
}

}  // namespace
}  // namespace ringsched
