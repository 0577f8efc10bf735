# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# A header as Doxygen 1.9.4 understands it, line by line, so that its warnings name the right ones: inline namespaces are left
# out of names, of detail namespaces there is one, and the comment at the top is the file's.
NR == 3 && $0 == "" { print "/// @file"; next }
NR == 3 && $0 == "#pragma once" { print "/// @file"; next }
NR == 4 && !/^\/\/\// && /^\/\// { sub(/^\/\//, "///") }
{
    gsub(/cuota::inline v0/, "cuota")
    gsub(/::inline CUOTA_(VIEWS|DLPACK|THRUST)/, "")
    sub(/^namespace cuota::(.*::)?detail(::[a-z_]*)*/, "namespace cuota::detail")
    if ($0 ~ /^inline namespace CUOTA_/) { depth = 1; print ""; next }
    if (depth && $0 ~ /^}  \/\/ namespace CUOTA_/) { depth = 0; print ""; next }
    print
}
