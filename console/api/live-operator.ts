/**
 * Keeps an operator's pages true: while one is open, the events of every account are followed, and what they have
 * changed is read again. A busy house has many events a second, so that reads are gathered and made at most so often.
 */
import { useEffect } from 'react'
import type { CallableId } from '../../src/client/client.ts'
import { client } from './client.ts'
import { useMay } from './me.ts'
import { isSignedOut, refresh } from './query.ts'

/** Between two times of reading. */
const TOGETHER_MS = 1_000
/** After the client has given up by itself. */
const AGAIN_MS = 5_000

const always: readonly CallableId[] = ['listAllEvents']

/** What is read again, by the first word of an event's type. */
const readAgain: Readonly<Record<string, readonly CallableId[]>> = {
  rental: ['listAllRentals', 'listFleet', 'listHosts', 'listAccounts', 'getAccount'],
  volume: ['listAccounts', 'getAccount'],
  balance: ['listAccounts', 'getAccount', 'listAudit'],
}

const everything: readonly CallableId[] = [...new Set([...always, ...Object.values(readAgain).flat()])]

/** For pages of operators. */
export function useOperatorEvents(): void {
  const may = useMay('operator')
  useEffect(() => {
    if (!may) return undefined
    const controller = new AbortController()
    void followForEver(controller.signal)
    return () => controller.abort()
  }, [may])
}

async function followForEver(signal: AbortSignal): Promise<void> {
  const readSoon = gatherReads(signal)
  while (!signal.aborted) {
    try {
      for await (const event of client.followAll({ signal })) {
        readSoon([...always, ...(readAgain[event.type.split('.')[0] ?? ''] ?? [])])
      }
    } catch (error) {
      // Signed out elsewhere: the next read says so and leads to the sign-in page.
      if (isSignedOut(error)) return
    }
    if (signal.aborted) return
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    // The new stream begins with what happens from now on; what was missed is read.
    readSoon(everything)
  }
}

function gatherReads(signal: AbortSignal): (reads: readonly CallableId[]) => void {
  const due = new Set<CallableId>()
  let timer: ReturnType<typeof setTimeout> | undefined
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  return (reads) => {
    for (const read of reads) due.add(read)
    timer ??= setTimeout(() => {
      timer = undefined
      const now = [...due]
      due.clear()
      void refresh(now)
    }, TOGETHER_MS)
  }
}
