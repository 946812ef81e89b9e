// Whatever arrives at a store is read as frames or refused in one line, in one piece or byte by
// byte; what reads is written as the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rendezvous/frame.hpp"

namespace {

// The same with the checksums of its first frame put right, which no fuzzer would guess.
std::string summed(std::string_view bytes) {
  using namespace ringsched;
  if (bytes.size() < kFrameHeader) return std::string(bytes);
  std::string_view length = bytes.substr(kFrameLength), rest = bytes.substr(kFrameHeader);
  const std::size_t body = std::min<std::size_t>(take_number(length, 4), rest.size());
  return with_checksums(std::string(bytes.substr(0, kFrameHeader - 8)), rest.substr(0, body))
      .append(rest.substr(body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringsched;
  using Outcome = ParsedFrame::Outcome;
  const std::string input = summed({reinterpret_cast<const char*>(data), size});
  std::string_view bytes = input;
  constexpr std::size_t most = 4096;
  while (true) {
    const ParsedFrame p = parse_frame(bytes, most);
    if (p.outcome == Outcome::Bad) {
      if (p.why.empty() || p.why.find('\n') != p.why.npos) std::abort();
      return 0;
    }
    if (p.outcome == Outcome::NeedsMore) return 0;
    const std::string_view body = p.frame.body;
    if (body.size() > most || p.taken != kFrameHeader + body.size() || p.taken > bytes.size())
      std::abort();
    std::string again = frame(p.frame.kind, p.frame.number, body);
    again[4] = static_cast<char>(p.frame.version);
    if (summed(again) != bytes.substr(0, p.taken)) std::abort();
    for (std::size_t have : {std::size_t{0}, p.taken / 2, p.taken - 1})
      if (parse_frame(bytes.substr(0, have), most).outcome != Outcome::NeedsMore) std::abort();
    if (const auto g = parse_greeting(body)) {
      const auto back = parse_greeting(greeting_text(*g));
      if (!back || back->rank != g->rank || back->size != g->size || back->host != g->host ||
          back->nonce != g->nonce || back->secret != g->secret)
        std::abort();
    }
    if (const auto texts = parse_texts(body))
      if (texts_body({texts->begin(), texts->end()}) != body) std::abort();
    bytes.remove_prefix(p.taken);
  }
}
