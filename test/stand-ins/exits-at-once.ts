// Says a last word on stderr and ends with code 7, without a look at its stdin.
process.stderr.write("no such model\n");
process.exitCode = 7;
