/**
 * A meter to be killed. It settles what its predecessor left, then completes requests at full speed and writes, in one
 * system call, which of them were acknowledged. With `drain` as its last argument it only settles.
 */
import { openSync, writeSync } from 'node:fs'
import { endRequests, openMeter } from './meter-run.ts'

const [, , databaseUrl = '', journalDir = '', seenFile = '', mode] = process.argv
const run = await openMeter({ databaseUrl, journalDir })
process.stdout.write('ready\n')

if (mode === 'drain') {
  await run.close()
  process.exit(0)
}

const file = openSync(seenFile, 'a')
let seen: string[] = []
const writeSeen = (): void => {
  writeSync(file, seen.join(''))
  seen = []
}
await endRequests(
  run,
  () => true,
  (requestId) => {
    // All requests of one event loop turn in one call, as soon as the meter is done with them.
    if (seen.length === 0) queueMicrotask(writeSeen)
    seen.push(`${requestId}\n`)
  },
)
