# Passes the output of `cargo test` on, and adds up the results of all test binaries at its end.
{ print; fflush() }
/^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) ~ /^passed/) passed += $i
        if ($(i + 1) ~ /^failed/) failed += $i
        if ($(i + 1) ~ /^ignored/) skipped += $i
    }
}
/^SKIPPED / { told[++tellings] = $0 }
/^test .* \.\.\. FAILED$/ { told[++tellings] = $0 }
END {
    print ""
    for (i = 1; i <= tellings; i++) print told[i]
    line = sprintf("%d passed, %d failed, %d skipped", passed, failed, skipped)
    print line
    print line > "target/test-summary"
}
