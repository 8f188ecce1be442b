// Command ledgerfeed-bench measures the program against limits taken in the same run: what
// the same machine, database and moment can do with nothing of ours in the way.
// A figure without its limit says more about the machine than about the
// program.
package main
