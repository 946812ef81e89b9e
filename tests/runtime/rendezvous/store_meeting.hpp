// A store and processes that join it, by real sockets, and what each is told.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "rendezvous/member.hpp"
#include "rendezvous/store.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

using namespace std::chrono_literals;

class StoreMeeting : public testing::Test {
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
        auto m = std::make_unique<Member>(o, [this](const std::string& why, int code) {
          const std::lock_guard lock(guard_);
          ended_.push_back(fmt::format("{} (exit {})", why, code));
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

}  // namespace ringsched
