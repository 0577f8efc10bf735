// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who is told of what happens to budgets apart from charges: a recorder, a log.
#pragma once

#include <cstddef>
#include <optional>

#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

class ledger_node;
class stakeholder;

/// Bytes that somebody who is no pool holds in one piece.
struct held_piece {
    void const* which = nullptr;  ///< tells it from all others that are held
    tag name{};
    place where{};
    std::size_t bytes = 0;
    memory_kind memory = memory_kind::device;
    std::optional<int> device{};  ///< its ordinal, of device memory
};

/// Told of a node and all below it, outside every lock, by the thread to which it happened. It may charge and refund, but
/// what that leads to it is told of, too.
class budget_observer : public ref_counted {
public:
    virtual ~budget_observer() = default;

    /// A request to `asked` was refused: by it, by a node above, or for want of memory that it would have allowed.
    virtual void refused(ledger_node const& asked, out_of_memory const& why) noexcept = 0;
    /// Somebody gave back what he did not use, for a charge to `asked`.
    virtual void reclaimed(ledger_node const& asked, reclaimer_facts const& who) noexcept = 0;
    /// Somebody who is no pool, as a loader, holds so much of `of` from now on; for 0 bytes, no more.
    virtual void holds(ledger_node const& of, held_piece const& what) noexcept = 0;
    /// Somebody has come who holds bytes of `of`.
    virtual void joined(ledger_node const& of, stakeholder& who) noexcept = 0;
};

}  // namespace cuota::inline v0::detail
