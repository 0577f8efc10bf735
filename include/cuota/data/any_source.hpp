// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What lets a loader hold any source and be no template itself.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <cuota/data/source.hpp>

namespace cuota::inline v0::detail {

/// A source of any type; one indirect call a batch.
class any_source {
public:
    template <class S>
        requires(!std::same_as<S, any_source>)
    &&source<S> explicit any_source(S from) : inside_{std::make_unique<model<S>>(std::move(from))} {}

    [[nodiscard]] std::uint64_t size() const { return inside_->size(); }
    [[nodiscard]] std::span<field const> fields() const { return inside_->fields(); }
    [[nodiscard]] std::string name() const { return inside_->name(); }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        inside_->gather(samples, out);
    }

private:
    struct base {
        virtual ~base() = default;
        virtual std::uint64_t size() const = 0;
        virtual std::span<field const> fields() const = 0;
        virtual std::string name() const = 0;
        virtual void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>) const = 0;
    };
    template <source S>
    struct model final : base {
        explicit model(S s) : from{std::move(s)} {}
        std::uint64_t size() const override { return from.size(); }
        std::span<field const> fields() const override { return from.fields(); }
        std::string name() const override { return from.name(); }
        void gather(std::span<std::uint64_t const> samples,
                    std::span<std::span<std::byte> const> out) const override {
            from.gather(samples, out);
        }
        S from;
    };
    std::unique_ptr<base const> inside_;
};

}  // namespace cuota::inline v0::detail
