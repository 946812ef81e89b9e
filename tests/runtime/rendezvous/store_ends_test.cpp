// How a meeting ends, and what the store tells each process.
#include <set>

#include "runtime/rendezvous/store_meeting.hpp"

namespace ringsched {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(StoreMeeting, WhoDoesNotComeIsNamed) {
  open(4, "", 700ms);
  auto zero = joins(options(0, 4)), two = joins(options(2, 4));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("failed: processes 1, 3 did not connect to 127.0.0.1:"),
                                HasSubstr("within 700 ms")));
  EXPECT_THAT(two.get(), HasSubstr("processes 1, 3"));
}

TEST_F(StoreMeeting, WhoDoesNotComeButWasRefusedIsNamedWithTheReason) {
  open(2, "secret", 700ms);
  auto zero = joins(options(0, 2, "secret"));
  EXPECT_THAT(joins(options(1, 2, "other")).get(), HasSubstr("refused: "));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("failed: process 1 did not connect to 127.0.0.1:"),
                                HasSubstr("; a process that claims to be process 1 was refused: "),
                                HasSubstr("proved that it knows the secret (RINGSCHED_SECRET)")));
}

TEST_F(StoreMeeting, WhoDoesNotComeToARoundIsNamed) {
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
  for (auto& one : all) EXPECT_THAT(one.get(), HasSubstr("did not join the others within"));
}

// A process that comes when the run has failed fails as the others do; its input may be good.
TEST_F(StoreMeeting, WhoComesAfterTheEndIsToldHowTheRunEnded) {
  open(2);
  all_join(2);
  members_.pop_back();  // without leave
  until_told("is gone: its connection closed", 1);
  EXPECT_THAT(joins(options(1, 2)).get(), AllOf(HasSubstr("failed: process 0 at "),
                                                HasSubstr(" refused this process: process "),
                                                HasSubstr("is gone: its connection closed")));
}

// Nobody can tell which of them is wrong, so all that were there are told that their input is bad.
TEST_F(StoreMeeting, WhatDoesNotFitIsBadInputOfAllWhoAreThere) {
  for (std::uint32_t size : {3u, 4u}) {  // the same number twice, another number of processes
    open(3);
    auto zero = joins(options(0, 3));
    const Socket one = admitted(1, 3);
    EXPECT_THAT(joins(options(1, size)).get(),
                AllOf(HasSubstr("refused: process 0 at "), HasSubstr(" refused this process: ")));
    EXPECT_THAT(zero.get(), AllOf(HasSubstr("refused: "), HasSubstr("process 1")));
    EXPECT_THAT(joins(options(2, 3)).get(),
                AllOf(HasSubstr("refused: process 0 at "), HasSubstr(" refused this process: ")));
  }
}

TEST_F(StoreMeeting, AChangedBitEndsTheRun) {
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
TEST_F(StoreMeeting, AChangedBitInTheFirstLettersIsOneToo) {
  open(2);
  auto zero = joins(options(0, 2));
  const Socket one = proved(1, 2);
  EXPECT_EQ(zero.get(), "joined");
  std::string put = frame(FrameKind::Put, 0, "a text");
  put[0] ^= 1;
  say(one, put);
  until_told("was refused: a message that was changed on the way: its first bytes are wrong", 1);
}

TEST_F(StoreMeeting, AConnectionThatClosesEndsTheRunAtOnce) {
  open(3);
  all_join(3);
  members_.pop_back();  // without leave
  until_told("is gone: its connection closed", 2);
  EXPECT_THROW(members_[0]->gather("x"), RunFailed);
}

// Names itself as it should, and then nothing any more.
TEST_F(StoreMeeting, OneThatIsSilentEndsTheRun) {
  open(2, "", 20s, 1s);
  auto zero = joins(options(0, 2));
  const Socket s = proved(1, 2);
  EXPECT_EQ(zero.get(), "joined");
  until_told("process 1 (host, ", 1);
  until_told("no message came from it for 1.00 s", 1);
}

TEST_F(StoreMeeting, AStoreThatIsGoneIsNoticed) {
  open(1);
  all_join(1);
  store_.reset();
  until_told("process 0 (which keeps the store at ", 1);
}

TEST_F(StoreMeeting, LastWordsAreKept) {
  open(3);
  all_join(3);
  members_[0]->farewell(texts_body({"a reason; pending: much", "times"}), 3);
  until_told("gave up: a reason (exit 3)", 3);
  {
    const std::lock_guard lock(guard_);
    EXPECT_EQ(told("pending"), 0u);
  }
  members_[1]->farewell(texts_body({"another", ""}), 3);
  members_.pop_back();
  const std::vector<LastWord> words = store_->last_words(20s);
  std::multiset<std::string> said;
  for (const LastWord& w : words)
    said.insert(w.state == LastWord::State::Said ? parse_texts(w.text)->at(0) : w.text);
  EXPECT_EQ(said, (std::multiset<std::string>{"a reason; pending: much", "another",
                                              "its connection closed"}));
}

TEST_F(StoreMeeting, AProcessThatIsStartedWronglyEndsTheOthersWithItsCode) {
  open(2);
  all_join(2);
  members_[0]->farewell(texts_body({"--tokens is 'nope'", ""}), 2);
  until_told("gave up: --tokens is 'nope' (exit 2)", 2);
}

}  // namespace
}  // namespace ringsched
