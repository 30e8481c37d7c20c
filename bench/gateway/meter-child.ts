/**
 * A meter that is to be killed. It first settles what the one before it has left, then ends requests at full speed and
 * writes down, in one system call, which ends could have been seen. `drain` as its last argument: it only settles.
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
    // All that end in one turn, by one call, as soon as the meter is done with them.
    if (seen.length === 0) queueMicrotask(writeSeen)
    seen.push(`${requestId}\n`)
  },
)
