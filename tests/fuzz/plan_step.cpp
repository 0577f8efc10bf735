// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/plan_file.hpp>

#include <algorithm>
#include <cstring>

#include "fuzz/fuzz.hpp"

namespace {

/// Reads numbers from the input: many small ones, some of 64 bits.
class numbers {
public:
    explicit numbers(std::string_view from) : from_{from} {}
    [[nodiscard]] bool is_over() const { return from_.empty(); }
    std::uint64_t next() {
        std::uint64_t value = take(1);
        return value < 0xfe ? value : take(value == 0xfe ? 2 : 8);
    }

private:
    std::uint64_t take(std::size_t bytes) {
        std::uint64_t value = 0;
        std::size_t const n = std::min(bytes, from_.size());
        if (n != 0) std::memcpy(&value, from_.data(), n);  // data() of an empty input may be null
        from_.remove_prefix(n);
        return value;
    }
    std::string_view from_;
};

std::size_t rounded(cuota::planned_request const& r) { return (r.live.size + 255) / 256 * 256; }
std::size_t end_of(cuota::planned_request const& r) { return r.offset + rounded(r); }
bool is_alive(cuota::planned_request const& r, std::uint64_t when) {
    return r.is_planned && r.live.from <= when && when < r.live.until;
}

cuota::planned_step step_of(numbers from) {
    cuota::planned_step step;
    bool const is_right = from.next() % 2 == 0;
    step.peak = from.next() * 256;
    step.lower_bound = from.next() * 256;
    for (std::uint64_t begin = 0; !from.is_over() && step.requests.size() != 24;) {
        cuota::planned_request r{};
        r.live.from = begin += from.next();
        r.live.until = r.live.from + from.next();
        r.live.size = from.next() * 16;
        r.is_planned = from.next() % 8 != 0;
        if (r.is_planned) r.offset = from.next() * 128;
        step.requests.push_back(r);
    }
    if (!is_right) return step;
    step.peak = step.lower_bound = 0;
    for (cuota::planned_request const& r : step.requests) {
        if (r.is_planned) step.peak = std::max(step.peak, end_of(r));
        std::size_t alive = 0;
        for (cuota::planned_request const& other : step.requests)
            if (is_alive(other, r.live.from)) alive += rounded(other);
        step.lower_bound = std::max(step.lower_bound, alive);
    }
    return step;
}

}  // namespace

// A plan whose hash is always correct and whose figures mostly follow from its requests. Random text would fail these checks and never
// reach the later ones. A plan that is accepted is checked again, pair by pair.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::planned_step const step = step_of(numbers{fuzz::text_of(data, size)});
    std::string const text = cuota::plan_text(step);
    cuota::planned_step read;
    if (!fuzz::is_read_or_refused(text.size(), 256, [&] { read = cuota::parse_plan(text, "plan"); }))
        return 0;
    fuzz::expect(read == step, "what is read is what was written");
    for (std::size_t i = 0; i != read.requests.size(); ++i) {
        cuota::planned_request const& a = read.requests[i];
        if (!a.is_planned) continue;
        fuzz::expect(end_of(a) <= read.peak && end_of(a) > a.offset, "a request lies in the slab");
        for (std::size_t k = 0; k != i; ++k) {
            cuota::planned_request const& b = read.requests[k];
            bool const are_apart = end_of(a) <= b.offset || end_of(b) <= a.offset;
            fuzz::expect(!is_alive(b, a.live.from) || are_apart, "no two that live together share a byte");
        }
    }
    return 0;
}
