// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// NVTX calls of this program; see nvtx_tool.cpp.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

struct nvtx_listener {
    std::mutex guard;
    std::vector<std::string>
        lines;  ///< format: "cuota push #decode 4096" = domain, call, message (# if registered), payload
    std::vector<std::string> strings;
    std::vector<std::string> domains;
    std::uint64_t ranges = 0;  ///< ranges that were started with an id

    void told(std::string line) {
        std::scoped_lock const lock{guard};
        lines.push_back(std::move(line));
    }
};

extern nvtx_listener& nvtx_tool;
