// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the answers of threads with a sequential specification (linearizability): each answer must be right at some instant between call
// and return, with one order of these instants for all threads. For scenarios of interleavings.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "model/interleavings.hpp"

namespace model {

/// `Spec` is a value with operator<=> and operator==; `long apply(Operation const&)` changes it and returns the answer. If it has
/// `std::optional<std::pair<Spec, long>> otherwise(Operation const&) const`, that result is accepted as well. call() belongs to the
/// thread's next step, returned() to its last one.
template <class Spec, class Operation>
class linear {
public:
    explicit linear(Spec const& start) { possible_[0].now = start; }

    void call(int thread, Operation const& what) {
        just_before_next([this, thread, what] { called(thread, what); });
    }
    void returned(int thread, long answer) {
        just_after_last([&] { answered(thread, answer); });
    }

    /// Does the same as part of a step that does more.
    void called(int who, Operation const& what) {
        auto const thread = static_cast<std::size_t>(who);
        operations_[thread] = what;
        for (std::size_t i = 0; i < count_; ++i) possible_[i].stages[thread] = stage::called;
        for (std::size_t i = 0; i < count_; ++i) serve(i);  // includes the ones that are added
        std::sort(possible_.begin(), possible_.begin() + static_cast<std::ptrdiff_t>(count_));
    }
    void answered(int who, long answer) {
        auto const thread = static_cast<std::size_t>(who);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            possibility p = possible_[i];
            if (p.stages[thread] != stage::done || p.answers[thread] != answer) continue;
            p.stages[thread] = stage::away;
            p.answers[thread] = 0;
            possible_[kept++] = p;
        }
        check(kept != 0, "an answer is right at some instant between call and return");
        for (std::size_t i = kept; i < count_; ++i) possible_[i] = {};
        count_ = kept;
        operations_[thread] = {};
        std::sort(possible_.begin(), possible_.begin() + static_cast<std::ptrdiff_t>(count_));
    }

    /// Number of possible states now. It is 1 when no operation is in progress and the answers determine the state.
    [[nodiscard]] std::size_t possibilities() const { return count_; }
    [[nodiscard]] Spec const& one() const { return possible_[0].now; }
    template <class Is>
    [[nodiscard]] bool any(Is is) const {
        return std::any_of(possible_.begin(), possible_.begin() + static_cast<std::ptrdiff_t>(count_),
                           [&](possibility const& p) { return is(p.now); });
    }

private:
    static constexpr std::size_t most_threads = 4, most = 32;
    enum class stage : std::uint8_t { away, called, done };
    struct possibility {  // a state of Spec, the operations done in it, and their answers
        Spec now{};
        std::array<stage, most_threads> stages{};
        std::array<long, most_threads> answers{};
        friend auto operator<=>(possibility const&, possibility const&) = default;
        friend bool operator==(possibility const&, possibility const&) = default;
    };

    void serve(std::size_t i) {
        for (std::size_t t = 0; t < most_threads; ++t) {
            if (possible_[i].stages[t] != stage::called) continue;
            possibility next = possible_[i];
            next.answers[t] = next.now.apply(operations_[t]);
            next.stages[t] = stage::done;
            add(next);
            if constexpr (requires { next.now.otherwise(operations_[t]); })
                if (auto const other = possible_[i].now.otherwise(operations_[t])) {
                    next.now = other->first;
                    next.answers[t] = other->second;
                    add(next);
                }
        }
    }
    void add(possibility const& next) {
        auto const end = possible_.begin() + static_cast<std::ptrdiff_t>(count_);
        if (std::find(possible_.begin(), end, next) != end) return;
        check(count_ < most, "linear.hpp has room for all possibilities");
        possible_[count_++] = next;
    }
    std::array<possibility, most> possible_{};
    std::size_t count_ = 1;
    std::array<Operation, most_threads> operations_{};
};

}  // namespace model
