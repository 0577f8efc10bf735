// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/pipeline.hpp>

#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/pipeline_numbers.hpp"

static_assert(!std::is_copy_constructible_v<cuota::pipeline>);

TEST_CASE("a pipeline on all available devices has the gradients of one device and the predicted peaks",
          "[training][pipeline][gpu]") {
    for (std::size_t lanes = 1; lanes != 5; ++lanes) {
        support::pipeline_case c{lanes, 5, static_cast<unsigned>(lanes)};
        std::vector<support::word> const right = support::sums_of_one_device(c.shape, 5, 3);
        cuota::pipeline net{c.net->stages(), c.first, 5, c.devices()};
        for (int step = 0; step != 2; ++step) {
            c.net->clear();
            net.run(c.net->inputs(), 3);
            CHECK(c.net->sums() == right);
        }
        CHECK(support::peaks_of(c.budgets) == net.peaks());
    }
}
