// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Observer of budget events other than charges.
#pragma once

#include <cstddef>
#include <optional>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

class ledger_node;
class reclaimable_holder;

/// One allocation of a holder that is not a pool.
struct held_piece {
    void const* which = nullptr;  ///< unique among held pieces
    tag name{};
    source_location where{};
    std::size_t bytes = 0;
    memory_kind memory = memory_kind::device;
    std::optional<int> device{};  ///< ordinal
};

/// Is notified of events by the thread that caused them, outside every lock; it may charge and refund.
class budget_observer : public ref_counted {
public:
    virtual ~budget_observer() = default;

    /// A request to `requested` was refused, perhaps by an ancestor or an upstream.
    virtual void refused(ledger_node const& requested, out_of_memory const& why) noexcept = 0;
    /// A holder released idle memory for a charge to `requested`.
    virtual void reclaimed(ledger_node const& requested, reclaimer_info const& who) noexcept = 0;
    /// A holder other than a pool now holds `what.bytes` of `of`; 0 if what.which was freed.
    virtual void holds(ledger_node const& of, held_piece const& what) noexcept = 0;
    /// A holder of memory of `of` was registered.
    virtual void joined(ledger_node const& of, reclaimable_holder& who) noexcept = 0;
};

}  // namespace cuota::inline v0::detail
