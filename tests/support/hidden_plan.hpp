// A plan with attends that have no visible pair: tasks 8 and 17 (the mask hides all) and 9 (of a
// chunk without tokens). They are waste; the results are right.
#pragma once

#include <string_view>

namespace ringsched {

inline constexpr std::string_view kHiddenPlan =
    R"({"format":"ringsched-plan","version":1,"layout":"zigzag",
"problem":{"workers":2,"tokens":3,"heads":4,"kv_heads":2,"head_dim":16,"dtype":"bf16",
           "mask":"causal","pass":"both"},
"tasks":[
{"do":"attend","in":["Q0","KV0"]},
{"do":"attend","in":["Q1","KV1"]},
{"do":"send","in":["KV0"],"to":1,"step":1},
{"do":"receive","from":2},
{"do":"attend","in":["Q1",3]},
{"do":"merge","in":[1,4]},
{"do":"send","in":["KV1"],"to":0},
{"do":"receive","from":6},
{"do":"attend","in":["Q0",7]},
{"do":"attend","in":["Q0","KV0"],"rows":[1,1],"keys":[1,1]},
{"do":"merge","in":[9,8]},
{"do":"merge","in":[10,0]},
{"do":"prepare","in":[11,"dO0"]},
{"do":"prepare","in":[5,"dO1"]},
{"do":"attend_backward","in":["Q0",12,"KV0"]},
{"do":"attend_backward","in":["Q1",13,"KV1"]},
{"do":"attend_backward","in":["Q1",13,3]},
{"do":"attend_backward","in":["Q0",12,7]},
{"do":"send","in":["16.1"],"to":0},
{"do":"receive","from":18},
{"do":"send","in":["17.1"],"to":1},
{"do":"receive","from":20},
{"do":"reduce","in":[17,14]},
{"do":"reduce","in":[15,16]},
{"do":"reduce","in":[19,"14.1"]},
{"do":"reduce","in":["15.1",21]}
]})";

}  // namespace ringsched
