// SHA-256 and HMAC (FIPS 180-4, RFC 2104): with these, processes prove that they know a secret
// without sending it.
#pragma once

#include <string>
#include <string_view>

namespace ringsched {

// 32 bytes each.
std::string sha256(std::string_view);
std::string hmac_sha256(std::string_view key, std::string_view text);

// Takes as long for texts that differ early as for those that differ late.
bool same_proof(std::string_view, std::string_view);

// Unpredictable bytes. Throws RunFailed.
std::string random_bytes(std::size_t);

}  // namespace ringsched
