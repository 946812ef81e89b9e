// CRC-32C (Castagnoli), the checksum of iSCSI and ext4: it finds every change of up to 32 bits in a
// row, and every single flipped bit. It is no defence against deliberate changes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringsched {

// Of `size` bytes. `before`: the checksum of the preceding bytes, so that data may come in parts.
std::uint32_t crc32c(const void* bytes, std::size_t size, std::uint32_t before = 0);

// The two ways to compute it. The second is null if this processor has no instruction for it.
using Crc32c = std::uint32_t (*)(const void* bytes, std::size_t size, std::uint32_t before);
std::uint32_t crc32c_by_table(const void* bytes, std::size_t size, std::uint32_t before);
Crc32c crc32c_by_instruction();

}  // namespace ringsched
