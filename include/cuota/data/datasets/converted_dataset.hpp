// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A dataset in other element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Converts `count` elements; neither side need be aligned.
template <class From, class To>
void convert(std::byte const* from, std::byte* to, std::size_t count, double scale, double shift) noexcept {
    using wide = wide_enough<From, To>;
    auto const factor = static_cast<wide>(scale);
    auto const offset = static_cast<wide>(shift);
    bool const is_plain = scale == 1 && shift == 0;
    for (std::size_t i = 0; i != count; ++i) {
        From x;
        std::memcpy(&x, from + i * sizeof x, sizeof x);
        To const y = converted<To>(x, factor, offset, is_plain);
        std::memcpy(to + i * sizeof y, &y, sizeof y);
    }
}

using convert_function = void (*)(std::byte const*, std::byte*, std::size_t, double, double) noexcept;

/// Returns null if unsupported.
[[nodiscard]] convert_function converter(element_type from, element_type to) noexcept;

struct gather_scratch;

/// Pool of scratch buffers, each used by one thread at a time.
class scratch_buffers {
public:
    scratch_buffers(std::size_t bytes, std::size_t parts);
    ~scratch_buffers();

    class lent {
    public:
        explicit lent(scratch_buffers& from);
        lent(lent const&) = delete;  // belongs to one thread
        lent& operator=(lent const&) = delete;
        ~lent();
        [[nodiscard]] gather_scratch& operator*() const noexcept { return *mine_; }

    private:
        scratch_buffers& from_;
        light_unique_ptr<gather_scratch> mine_;
    };

private:
    [[nodiscard]] light_unique_ptr<gather_scratch> take();
    void put_back(light_unique_ptr<gather_scratch> scratch) noexcept;

    std::size_t const bytes_;
    std::size_t const parts_;
    object_lock guard_;
    std::size_t made_ = 0;
    std::vector<light_unique_ptr<gather_scratch>> free_;
};

class conversion_steps {
public:
    /// Throws: usage_error for a ragged field or unsupported conversion.
    conversion_steps(std::span<field const> from, std::vector<conversion> const& wanted,
                     std::string const& owner);

    [[nodiscard]] std::span<field const> fields() const noexcept;  ///< as converted
    [[nodiscard]] std::size_t samples_at_once() const noexcept { return samples_at_once_; }
    [[nodiscard]] std::size_t scratch_bytes() const noexcept { return samples_at_once_ * sample_bytes_; }

    /// Returns where to read: converted fields to the scratch, others to their destination.
    [[nodiscard]] std::span<std::span<std::byte> const> rooms(
        gather_scratch& scratch, std::size_t done, std::size_t now,
        std::span<std::span<std::byte> const> out) const noexcept;
    void convert(gather_scratch const& scratch, std::size_t done, std::size_t now,
                 std::span<std::span<std::byte> const> out) const noexcept;

private:
    struct step {
        convert_function convert = nullptr;  // null: unchanged
        std::size_t bytes = 0;               // per sample of the dataset
        std::size_t count = 0;
        std::size_t to_bytes = 0;  // per element
        double scale = 1;
        double shift = 0;
    };

    std::vector<field> fields_;
    std::vector<step> steps_;
    std::size_t sample_bytes_ = 0;  // of the converted fields
    std::size_t samples_at_once_ = 1;
};

}  // namespace detail

/// A dataset with some fields converted: floats to half or bfloat16, bytes to floats.
///
///     cuota::converted_dataset half_size{images, {{"images", cuota::element_type::f16}}};
///
/// u8 data is better widened on the device (converted_on_device).
/// Throws:  usage_error for ragged fields (convert the rows of a ragged_dataset instead), an unknown or repeated field, or a type other
///          than f16, bf16, f32 or f64.
/// Cost:    a scratch buffer of 256 KiB, or of one sample if larger, per concurrently reading thread.
template <dataset S>
class converted_dataset {
public:
    /// Stores the dataset.
    converted_dataset(S from, std::vector<conversion> const& wanted)
        : state_{detail::light_shared_ptr<state>::make(std::move(from), wanted)} {}

    [[nodiscard]] std::uint64_t size() const { return state_->from.size(); }  ///< samples
    [[nodiscard]] std::span<field const> fields() const noexcept {
        return state_->steps.fields();
    }                                                                                    ///< as converted
    [[nodiscard]] std::string name() const { return std::string{state_->from.name()}; }  ///< the dataset's

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_all(samples, out, {});
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const requires detail::gathers_in_context<S> {
        gather_all(samples, out, context);
    }

private:
    void gather_all(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const {
        check_gather(*this, samples, out);
        detail::conversion_steps const& steps = state_->steps;
        detail::scratch_buffers::lent const lent{state_->shelf};
        for (std::size_t done = 0; done != samples.size();) {
            std::size_t const now = std::min(samples.size() - done, steps.samples_at_once());
            detail::gather_in(context, state_->from, samples.subspan(done, now),
                              steps.rooms(*lent, done, now, out));
            steps.convert(*lent, done, now, out);
            done += now;
        }
    }

    struct state {
        state(S source_of, std::vector<conversion> const& wanted)
            : from{std::move(source_of)},
              steps{from.fields(), wanted, std::string{from.name()}},
              shelf{steps.scratch_bytes(), steps.fields().size()} {}
        S from;
        detail::conversion_steps steps;
        detail::scratch_buffers shelf;
    };

    detail::light_shared_ptr<state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

struct gather_scratch {
    std::vector<std::byte> bytes;
    std::vector<std::span<std::byte>> parts;  // one per field
};

CUOTA_INLINE convert_function converter(element_type from, element_type to) noexcept {
    convert_function found = nullptr;
    with_element(from, [&](auto f) {
        with_element(to, [&](auto t) {
            using target = typename decltype(t)::type;
            if constexpr (!std::is_integral_v<target>) found = &convert<typename decltype(f)::type, target>;
        });
    });
    return found;
}

CUOTA_INLINE conversion_steps::conversion_steps(std::span<field const> from,
                                                std::vector<conversion> const& wanted,
                                                std::string const& owner)
    : fields_{from.begin(), from.end()} {
    expect_no_ragged(from, "converted_dataset of " + owner);
    for (field const& f : from)
        steps_.push_back({nullptr, f.bytes(), f.count(), element_bytes(f.type), 1, 0});
    auto const becomes = convert_fields(fields_, wanted, owner);
    for (std::size_t k = 0; k != steps_.size(); ++k) {
        if (!becomes[k]) continue;
        step& s = steps_[k];
        s.convert = converter(from[k].type, becomes[k]->to);
        s.to_bytes = element_bytes(becomes[k]->to);
        s.scale = becomes[k]->scale;
        s.shift = becomes[k]->offset;
        sample_bytes_ += s.bytes;
    }
    constexpr std::size_t in_the_cache = std::size_t{256} << 10;
    samples_at_once_ = std::max<std::size_t>(in_the_cache / std::max<std::size_t>(sample_bytes_, 1), 1);
}

CUOTA_INLINE std::span<field const> conversion_steps::fields() const noexcept { return fields_; }

CUOTA_INLINE std::span<std::span<std::byte> const> conversion_steps::rooms(
    gather_scratch& scratch, std::size_t done, std::size_t now,
    std::span<std::span<std::byte> const> out) const noexcept {
    std::size_t used = 0;
    for (std::size_t k = 0; k != out.size(); ++k) {
        step const& s = steps_[k];
        std::size_t const bytes = s.bytes * now;
        scratch.parts[k] =
            s.convert ? std::span{scratch.bytes}.subspan(used, bytes) : out[k].subspan(done * s.bytes, bytes);
        if (s.convert) used += bytes;
    }
    return scratch.parts;
}

CUOTA_INLINE void conversion_steps::convert(gather_scratch const& scratch, std::size_t done, std::size_t now,
                                            std::span<std::span<std::byte> const> out) const noexcept {
    for (std::size_t k = 0; k != out.size(); ++k)
        if (step const& s = steps_[k]; s.convert)
            s.convert(scratch.parts[k].data(), out[k].data() + done * s.count * s.to_bytes, now * s.count,
                      s.scale, s.shift);
}

CUOTA_INLINE scratch_buffers::scratch_buffers(std::size_t bytes, std::size_t parts)
    : bytes_{bytes}, parts_{parts} {}

CUOTA_INLINE scratch_buffers::~scratch_buffers() = default;

CUOTA_INLINE scratch_buffers::lent::lent(scratch_buffers& from) : from_{from}, mine_{from.take()} {}

CUOTA_INLINE scratch_buffers::lent::~lent() { from_.put_back(std::move(mine_)); }

CUOTA_INLINE light_unique_ptr<gather_scratch> scratch_buffers::take() {
    region_lock const lock{guard_};
    if (free_.empty()) {
        free_.reserve(made_ + 1);  // so that put_back cannot fail
        auto made = light_unique_ptr<gather_scratch>::make();
        made->bytes.resize(bytes_);
        made->parts.resize(parts_);
        ++made_;
        return made;
    }
    light_unique_ptr<gather_scratch> taken = std::move(free_.back());
    free_.pop_back();
    return taken;
}

CUOTA_INLINE void scratch_buffers::put_back(light_unique_ptr<gather_scratch> scratch) noexcept {
    if (guard_.is_of_parent()) return;  // a dataset forked while it was gathered from
    region_lock const lock{guard_};
    free_.push_back(std::move(scratch));
}

}  // namespace cuota::inline v0::detail

#endif
