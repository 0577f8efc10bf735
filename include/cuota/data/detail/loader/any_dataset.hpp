// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Type-erased dataset of a loader.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0::detail {

/// Calls a dataset indirectly, once per batch.
/// Throws: usage_error for a ragged field without row_counts().
class any_dataset {
public:
    template <class S>
        requires(!std::same_as<S, any_dataset>)
    &&dataset<S> explicit any_dataset(S from) : inside_{new model<S>{std::move(from)}} {
        for (field const& f : fields())
            if (f.is_ragged && !has_row_counts<S>)
                throw_usage_error("{}: field {} is ragged, but the dataset has no row_counts()",
                                  {name(), field_text(f)});
    }

    [[nodiscard]] std::uint64_t size() const { return asked().size(); }
    [[nodiscard]] std::span<field const> fields() const { return asked().fields(); }
    [[nodiscard]] std::string name() const { return asked().name(); }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context = {}) const;
    [[nodiscard]] bool can_fill_device_memory() const { return inside_->can_fill_device_memory(); }
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const;

private:
    struct base {
        virtual ~base() = default;
        virtual std::uint64_t size() const = 0;
        virtual std::span<field const> fields() const = 0;
        virtual std::string name() const = 0;
        virtual void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>,
                            gather_context const&) const = 0;
        virtual bool can_fill_device_memory() const = 0;
        virtual void row_counts(std::size_t, std::span<std::uint64_t const>,
                                std::span<std::uint64_t>) const = 0;
    };
    template <dataset S>
    struct model final : base {
        explicit model(S s) : from{std::move(s)} {}
        std::uint64_t size() const override { return from.size(); }
        std::span<field const> fields() const override { return from.fields(); }
        std::string name() const override { return from.name(); }
        void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const override {
            gather_in(context, from, samples, out);
        }
        bool can_fill_device_memory() const override { return fills_device_memory<S>; }
        void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                        std::span<std::uint64_t> out) const override {
            if constexpr (has_row_counts<S>) from.row_counts(k, samples, out);
            else throw_usage_error("{}: cannot return lengths: no field is ragged", {name()});
        }
        S from;
    };
    // The program's dataset is called outside all locks.
    [[nodiscard]] base const& asked() const noexcept {
        expect_no_region("a dataset");
        return *inside_;
    }

    light_unique_ptr<base const> inside_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE void any_dataset::gather(std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out,
                                      gather_context const& context) const {
    asked().gather(samples, out, context);
}

CUOTA_INLINE void any_dataset::row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                                          std::span<std::uint64_t> out) const {
    asked().row_counts(k, samples, out);
}

}  // namespace cuota::inline v0::detail

#endif
