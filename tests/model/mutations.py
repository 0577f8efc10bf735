# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What mutation.py takes out: the rule, the header, its text (which stands there once), and what takes its place."""
LEDGER, STOCK, RECORD = "guard/ledger.hpp", "guard/stock.hpp", "core/thread_record.hpp"
MUTATIONS = [
    ("who calls in fences", LEDGER, "if (others && fences_are_asymmetric()) heavy_fence();", "(void)others;"),
    ("who calls in waits for sections", LEDGER, "see_section_end(*closed->holder());", ""),
    ("a section is fenced", RECORD, "            light_fence();\n", ""),
    ("a section is fenced where there is no membarrier", RECORD,
     "me.sections.exchange(count_, std::memory_order_seq_cst);", "me.sections.store(count_, std::memory_order_relaxed);"),
    ("a stock serves its owner only", STOCK,
     "if (!is_mine(me)) return false;\n        used_.store(used + bytes",
     "used_.store(used + bytes"),
    ("a stock is closed before it is emptied", LEDGER, "            s.close();\n", ""),
    ("a new peak is what is held", LEDGER,
     "if (node->taken_ > node->peak_ && node->lent_ > granted) collect_under(*node, mine);", ""),
    ("what others hold ready is called in before a refusal", LEDGER,
     "if (need - node->room_here() <= node->lent_ - granted) collect_under(*node, mine);", ""),
    ("what others charged is called in before a refund is refused", LEDGER,
     "collect([&](stock& s) { return s.node() == this && &s != mine; }, me);", ""),
    ("a refusal without the lock leaves out what others hold ready", LEDGER,
     "(taken_ - lent_ + granted)", "taken_"),
    ("a refusal without the lock is of one instant", LEDGER, "return tree.version.now() == version;", "return true;"),
    ("a refusal by a node not looked at first is of one instant", LEDGER,
     "return tree_->version.now() == version;", "return true;"),
    ("a refusal without the lock is not of a change that is under way", LEDGER, "if (version % 2 != 0 || tree.outer) return false;",
     "if (tree.outer) return false;"),
    ("a refusal without the lock leaves out what this thread holds ready", LEDGER,
     "std::size_t const need = bytes - std::min(bytes, ready.grant - ready.used);", "std::size_t const need = bytes;"),
    ("what a stock has in use stays charged", LEDGER, "own_ += s.used();", ""),
]
