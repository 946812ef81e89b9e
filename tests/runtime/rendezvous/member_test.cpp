// A process that calls a store: addresses, and wrong answers.
#include "runtime/rendezvous/store_meeting.hpp"

namespace ringsched {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(StoreMeeting, AnAddressThatIsTakenIsNamed) {
  open(1);
  try {
    Store second({store_->address(), 1, "", 1s, 1s}, [](const std::string&) {});
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), HasSubstr(store_->address().text() + ": Address already in use"));
  }
}

TEST_F(StoreMeeting, NobodyAtTheAddressIsSaidInTime) {
  Address at;
  {
    const Socket s = listen_at({"127.0.0.1", 0});
    at = local_address(s);
  }
  try {
    Member m({at, 1, 2, "", 300ms, 1s}, [](const std::string&, int) {});
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("was not found at " + at.text() + " within 300 ms"),
                                HasSubstr("refused")));
  }
}

TEST_F(StoreMeeting, SomebodyElseAtTheAddressIsSaid) {
  const Socket listening = listen_at({"127.0.0.1", 0});
  std::thread other([&] {
    Socket s;
    while (!s) s = accept_from(listening);
    send_all(s, "220 mail ready\r\n", std::chrono::steady_clock::now() + 5s);
    hear(s);
  });
  try {
    Member m({local_address(listening), 1, 2, "", 20s, 1s}, [](const std::string&, int) {});
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
TEST_F(StoreMeeting, OneThatIsNotToldThatItIsInCallsAgain) {
  StoreOfTest store;
  auto one = joins({store.address(), 1, 2, "", 20s, 20s});
  store.called().close();
  const Socket s = store.called();
  store.say(s, frame(FrameKind::Alive) + frame(FrameKind::Welcome, 2));
  EXPECT_EQ(one.get(), "joined");
  EXPECT_TRUE(none_ended());
}

TEST_F(StoreMeeting, AnswersOfTheStoreThatCannotBeReadEndTheRun) {
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
      EXPECT_THAT(e.what(), HasSubstr("process 0 sent unreadable data: message "));
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
