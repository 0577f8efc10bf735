// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Another source's samples in other numbers: what is smaller than it was is sooner across the link.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/error.hpp>
#include <cuota/core/half.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0 {

/// What becomes of a field: each number x is x * scale + shift, calculated in float, or in double where either type has 8
/// bytes or is i32 or u32, and rounded to nearest; to f16 and bf16 by way of float.
struct conversion {
    std::string field;
    element_type to = element_type::f32;  ///< f16, bf16, f32 or f64
    double scale = 1;
    double shift = 0;
};

namespace detail {

template <class T>
struct type_tag {
    using type = T;
};

/// Calls with the tag of the type that an element has in memory.
template <class Action>
void with_element(element_type type, Action action) {
    switch (type) {
        case element_type::u8: return action(type_tag<std::uint8_t>{});
        case element_type::i8: return action(type_tag<std::int8_t>{});
        case element_type::i16: return action(type_tag<std::int16_t>{});
        case element_type::u16: return action(type_tag<std::uint16_t>{});
        case element_type::i32: return action(type_tag<std::int32_t>{});
        case element_type::u32: return action(type_tag<std::uint32_t>{});
        case element_type::i64: return action(type_tag<std::int64_t>{});
        case element_type::u64: return action(type_tag<std::uint64_t>{});
        case element_type::f16: return action(type_tag<half>{});
        case element_type::f32: return action(type_tag<float>{});
        case element_type::f64: return action(type_tag<double>{});
        case element_type::bf16: return action(type_tag<bfloat16>{});
    }
}

/// In which numbers a conversion calculates: those that hold all of either side's.
template <class From, class To>
using wide_enough = std::conditional_t<
    (sizeof(From) == 8 || sizeof(To) == 8 || (std::is_integral_v<From> && sizeof(From) == 4)), double, float>;

/// `count` numbers of one type into another. Neither side need be aligned.
template <class From, class To>
void convert(std::byte const* from, std::byte* to, std::size_t count, double scale, double shift) noexcept {
    using wide = wide_enough<From, To>;
    auto const factor = static_cast<wide>(scale);
    auto const offset = static_cast<wide>(shift);
    bool const is_plain = scale == 1 && shift == 0;
    for (std::size_t i = 0; i != count; ++i) {
        From x;
        std::memcpy(&x, from + i * sizeof x, sizeof x);
        wide value;
        if constexpr (std::is_arithmetic_v<From>) value = static_cast<wide>(x);
        else value = static_cast<wide>(static_cast<float>(x));
        if (!is_plain) value = value * factor + offset;
        To y;
        if constexpr (std::is_arithmetic_v<To>) y = static_cast<To>(value);
        else y = To{static_cast<float>(value)};
        std::memcpy(to + i * sizeof y, &y, sizeof y);
    }
}

using convert_function = void (*)(std::byte const*, std::byte*, std::size_t, double, double) noexcept;

/// Null when nothing converts to that type.
[[nodiscard]] inline convert_function converter(element_type from, element_type to) noexcept {
    convert_function found = nullptr;
    with_element(from, [&](auto f) {
        with_element(to, [&](auto t) {
            using target = typename decltype(t)::type;
            if constexpr (!std::is_integral_v<target>) found = &convert<typename decltype(f)::type, target>;
        });
    });
    return found;
}

/// What a gather needs besides its target.
struct gather_scratch {
    std::vector<std::byte> bytes;
    std::vector<std::span<std::byte>> parts;  // one a field
};

/// Scratch that is lent to one thread at a time, and kept for the next: as many as have ever been needed at once.
class scratch_shelf {
public:
    scratch_shelf(std::size_t bytes, std::size_t parts) : bytes_{bytes}, parts_{parts} {}

    class lent {
    public:
        explicit lent(scratch_shelf& from) : from_{from}, mine_{from.take()} {}
        lent(lent const&) = delete;  // one thread's
        lent& operator=(lent const&) = delete;
        ~lent() { from_.put_back(std::move(mine_)); }
        [[nodiscard]] gather_scratch& operator*() const noexcept { return *mine_; }

    private:
        scratch_shelf& from_;
        std::unique_ptr<gather_scratch> mine_;
    };

private:
    [[nodiscard]] std::unique_ptr<gather_scratch> take() {
        std::scoped_lock const lock{guard_};
        if (free_.empty()) {
            free_.reserve(made_ + 1);  // there is a place for it when it comes back
            auto made = std::make_unique<gather_scratch>();
            made->bytes.resize(bytes_);
            made->parts.resize(parts_);
            ++made_;
            return made;
        }
        std::unique_ptr<gather_scratch> taken = std::move(free_.back());
        free_.pop_back();
        return taken;
    }
    void put_back(std::unique_ptr<gather_scratch> scratch) noexcept {
        std::scoped_lock const lock{guard_};
        free_.push_back(std::move(scratch));
    }

    std::size_t const bytes_;
    std::size_t const parts_;
    std::mutex guard_;
    std::size_t made_ = 0;
    std::vector<std::unique_ptr<gather_scratch>> free_;
};

}  // namespace detail

/// The samples of a source, with some of its fields in other numbers: floats as half or bfloat16, bytes as floats.
///
///     cuota::converted_source half_size{cuota::npy_source{"images.npy"}, {{"images", cuota::element_type::f16}}};
///
/// What was u8 is better sent as it is, and widened on the device.
/// Throws: misuse for a field that there is not, one that is named twice, or a type that is no f16, bf16, f32 or f64.
/// Cost:   a gather reads through a scratch of 256 KiB, or of one sample if that is larger, for each thread that reads at
///         once; made when it is first needed.
template <source S>
class converted_source {
public:
    converted_source(S from, std::vector<conversion> const& wanted)
        : state_{std::make_shared<state>(std::move(from), wanted)} {}

    [[nodiscard]] std::uint64_t size() const { return state_->from.size(); }
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }
    [[nodiscard]] std::string name() const { return std::string{state_->from.name()}; }

    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        check_gather(*this, samples, out);
        detail::scratch_shelf::lent const lent{state_->shelf};
        auto& [scratch, part] = *lent;
        for (std::size_t done = 0; done != samples.size();) {
            std::size_t const now = std::min(samples.size() - done, state_->samples_at_once);
            std::size_t used = 0;
            for (std::size_t k = 0; k != out.size(); ++k) {
                step const& s = state_->steps[k];
                std::size_t const bytes = s.bytes * now;
                part[k] = s.convert ? std::span{scratch}.subspan(used, bytes)
                                    : out[k].subspan(done * s.bytes, bytes);
                if (s.convert) used += bytes;
            }
            state_->from.gather(samples.subspan(done, now), part);
            for (std::size_t k = 0; k != out.size(); ++k)
                if (step const& s = state_->steps[k]; s.convert)
                    s.convert(part[k].data(), out[k].data() + done * s.count * s.to_bytes, now * s.count,
                              s.scale, s.shift);
            done += now;
        }
    }

private:
    struct step {
        detail::convert_function convert = nullptr;  // null: as it is
        std::size_t bytes = 0;                       // of a sample in the source
        std::size_t count = 0;
        std::size_t to_bytes = 0;  // of an element
        double scale = 1;
        double shift = 0;
    };

    struct state {
        state(S source_of, std::vector<conversion> const& wanted)
            : from{std::move(source_of)}, shelf{plan(wanted), fields.size()} {}

        // Fills all but the shelf; returns the bytes of a scratch.
        std::size_t plan(std::vector<conversion> const& wanted) {
            std::span<field const> const all = from.fields();
            fields.assign(all.begin(), all.end());
            std::size_t a_sample = 0;
            for (field const& f : fields)
                steps.push_back({nullptr, f.bytes(), f.count(), element_bytes(f.type), 1, 0});
            for (conversion const& c : wanted) {
                std::size_t const k = index_of(c.field);
                step& s = steps[k];
                if (s.convert) throw misuse{name() + ": field " + c.field + " is to be converted twice"};
                s.convert = detail::converter(fields[k].type, c.to);
                if (!s.convert)
                    throw misuse{name() + ": field " + field_text(fields[k]) + " cannot be converted to " +
                                 element_name(c.to) + "; f16, bf16, f32 and f64 can be had"};
                fields[k].type = c.to;
                s.to_bytes = element_bytes(c.to);
                s.scale = c.scale;
                s.shift = c.shift;
                a_sample += s.bytes;
            }
            constexpr std::size_t in_the_cache = std::size_t{256} << 10;
            samples_at_once = std::max<std::size_t>(in_the_cache / std::max<std::size_t>(a_sample, 1), 1);
            return samples_at_once * a_sample;
        }
        [[nodiscard]] std::size_t index_of(std::string const& wanted) const {
            auto const found = std::ranges::find(fields, wanted, &field::name);
            if (found == fields.end()) throw misuse{name() + " has no field " + wanted + " to convert"};
            return static_cast<std::size_t>(found - fields.begin());
        }
        [[nodiscard]] std::string name() const { return std::string{from.name()}; }

        S from;
        std::vector<field> fields{};
        std::vector<step> steps{};
        std::size_t samples_at_once = 1;
        detail::scratch_shelf shelf;
    };

    std::shared_ptr<state> state_;
};

}  // namespace cuota::inline v0
