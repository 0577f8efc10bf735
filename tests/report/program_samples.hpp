// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A small program under a recorder, for tests of diagnoses of real pools and budgets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/recording/recorder.hpp>

#include "report/diagnosis_samples.hpp"

namespace program_samples {

/// A budget, a pool on it, and a recorder. Frees its blocks when it is destroyed.
class program {
public:
    explicit program(std::size_t limit, cuota::pool_options how = {}) : program{{"trainer", limit}, how} {}
    program(cuota::budget account, cuota::pool_options how)
        : budget{std::move(account)}, recorder{budget}, pool{budget, named(how)} {}
    program(program const&) = delete;
    program& operator=(program const&) = delete;
    ~program() {
        while (!held_.empty()) give(held_.back().at);
        stream.synchronize();
    }

    void* take(std::size_t bytes, cuota::tag name = {},
               cuota::source_location where = cuota::source_location::current()) {
        void* const p = pool.allocate(stream, bytes, 256, name, where);
        held_.push_back({p, bytes});
        return p;
    }
    void give(void* p) {
        auto const at = std::ranges::find(held_, p, &block::at);
        pool.deallocate(stream, p, at->bytes);
        held_.erase(at);
    }
    void take_and_give(std::size_t bytes, cuota::tag name = {},
                       cuota::source_location where = cuota::source_location::current()) {
        give(take(bytes, name, where));
    }
    template <class Body>
    void run(std::size_t steps, Body body) {
        for (std::size_t i = 0; i != steps; ++i) {
            auto const step = pool.begin_step();
            body(i);
        }
    }
    [[nodiscard]] std::vector<cuota::finding> found(cuota::finding_kind kind) const {
        return diagnosis_samples::only(kind, cuota::diagnose(recorder.read()));
    }

    cuota::budget budget;
    cuota::stream stream;
    cuota::recorder recorder;
    cuota::scoped_pool pool;

private:
    struct block {
        void* at;
        std::size_t bytes;
    };
    static cuota::pool_options named(cuota::pool_options how) {
        how.name = "work";
        return how;
    }
    std::vector<block> held_;
};

/// Returns whether the only finding has this tag, line, size and text, and a file with the expected name.
[[nodiscard]] inline bool is_told(std::vector<cuota::finding> const& found, cuota::tag name, unsigned line,
                                  std::size_t bytes, std::string const& words) {
    if (found.size() != 1) return false;
    cuota::finding const& f = found.front();
    return f.name == name && f.where.line == line && f.bytes == bytes &&
           f.text.find(words) != std::string::npos;
}

[[nodiscard]] inline std::string shown(std::vector<cuota::finding> const& found) {
    std::string text = cuota::diagnosis_text(found);
    for (cuota::finding const& f : found)
        text += "\n    " + std::string{f.name.text()} + ", line " + std::to_string(f.where.line) + ", " +
                std::to_string(f.bytes) + " bytes";
    return text;
}

}  // namespace program_samples
