// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Observer of budget events other than charges, for a recorder or a log.
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

/// One allocation of a holder that is not a pool, such as a loader.
struct held_piece {
    void const* which = nullptr;  ///< unique among the pieces that are held
    tag name{};
    source_location where{};
    std::size_t bytes = 0;
    memory_kind memory = memory_kind::device;
    std::optional<int> device{};  ///< ordinal, for device memory
};

/// Is notified of events of a node and its descendants by the thread that caused them, outside every lock. A notification may charge and
/// refund.
class budget_observer : public ref_counted {
public:
    virtual ~budget_observer() = default;

    /// A request to `requested` was refused by it, by an ancestor, or by an upstream.
    virtual void refused(ledger_node const& requested, out_of_memory const& why) noexcept = 0;
    /// A holder released idle memory for a charge to `requested`.
    virtual void reclaimed(ledger_node const& requested, reclaimer_info const& who) noexcept = 0;
    /// A holder other than a pool now holds `what.bytes` of `of` in the piece what.which; 0 if it was freed.
    virtual void holds(ledger_node const& of, held_piece const& what) noexcept = 0;
    /// A holder of memory of `of` was registered.
    virtual void joined(ledger_node const& of, reclaimable_holder& who) noexcept = 0;
};

}  // namespace cuota::inline v0::detail
