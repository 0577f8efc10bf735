// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Samples that contain their own number, from a dataset that can be made to fail or wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/datasets/dataset.hpp>

namespace support {

/// Sample i has a field of `width` numbers, all equal to i, and a field of one number, i * 3.
class numbered_source {
public:
    explicit numbered_source(std::uint64_t samples, std::size_t width = 5)
        : samples_{samples},
          fields_{std::make_shared<std::vector<cuota::field>>(std::vector<cuota::field>{
              {"numbers", cuota::element_type::u32, {width}}, {"triple", cuota::element_type::u64, {}}})} {}

    /// Sets a hook that runs before each gather. An exception of the hook is thrown by the gather.
    numbered_source& before_each(std::function<void(std::span<std::uint64_t const>)> hook) {
        hook_ = std::make_shared<std::function<void(std::span<std::uint64_t const>)>>(std::move(hook));
        return *this;
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return samples_; }
    [[nodiscard]] std::span<cuota::field const> fields() const noexcept { return *fields_; }
    [[nodiscard]] std::string name() const { return "numbers"; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        cuota::check_gather(*this, samples, out);
        if (hook_) (*hook_)(samples);
        std::byte* numbers = out[0].data();
        std::byte* triples = out[1].data();
        for (std::uint64_t const sample : samples) {
            auto const number = static_cast<std::uint32_t>(sample);
            for (std::size_t i = 0; i != fields()[0].count(); ++i, numbers += sizeof number)
                std::memcpy(numbers, &number, sizeof number);
            std::uint64_t const triple = sample * 3;
            std::memcpy(triples, &triple, sizeof triple);
            triples += sizeof triple;
        }
    }

private:
    std::uint64_t samples_;
    std::shared_ptr<std::vector<cuota::field>> fields_;
    std::shared_ptr<std::function<void(std::span<std::uint64_t const>)>> hook_;
};

static_assert(cuota::dataset<numbered_source>);

}  // namespace support
