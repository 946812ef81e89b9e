// Numbers as stored in memory: fp32, bf16 and fp16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

float from_bf16(std::uint16_t);
std::uint16_t to_bf16(float);  // to the nearest, ties to even; NaN stays NaN
float from_fp16(std::uint16_t);
std::uint16_t to_fp16(float);

// The i-th number of an array.
float number_at(const std::byte* array, Dtype, std::int64_t i);
void put_number(std::byte* array, Dtype, std::int64_t i, float value);

// The relative distance of neighbouring numbers: 2^-23, 2^-7, 2^-10.
double spacing(Dtype);

// The factor on scores before their softmax: 1 / sqrt(head dimension).
double score_scale(const Problem&);

}  // namespace ringsched
