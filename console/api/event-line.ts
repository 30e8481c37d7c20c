/**
 * The events of the server, for every tab of this browser over one connection. A browser has six connections to a host,
 * for all its tabs together, and a stream never ends: with one stream a tab, the seventh tab could load nothing.
 *
 * So the tab that holds the lock follows, and tells the others on a channel. A tab that is hidden lets go of the lock
 * and hears nothing; the one that gets it next goes on after the last event that was told. Without https there are no
 * locks, but on the server's own machine: there each tab that is seen follows by itself.
 */
import { ApiError } from '../../src/client/error.ts'
import { pause } from '../../src/client/pause.ts'
import type { AccountEvent, EventRecord } from '../../src/contract/event.ts'
import { client } from './client.ts'
import { openTabs } from './tabs.ts'

/** After the client has given up by itself, which it does when the server is away for longer than a restart. */
const AGAIN_MS = 5_000

export type LineEvent = EventRecord | AccountEvent

interface EventLineOptions {
  readonly of: 'account' | 'everyone'
  /** Who is signed in. Tabs of somebody else have a line of their own. */
  readonly keyId: string
  /** The newest event when the page began to read. undefined: not known. */
  readonly start: string | undefined
  readonly onEvent: (event: LineEvent) => void
  /** Whether the server can be heard. Told more than once. */
  readonly onState: (isOpen: boolean) => void
  /** It can be heard for the first time, and what was read until now may have missed an event. */
  readonly onBegin: () => void
  /** It can be heard again, after a time in which anything may have happened. */
  readonly onMissed: () => void
}

type Word =
  | { readonly kind: 'event'; readonly event: LineEvent }
  | { readonly kind: 'state'; readonly isOpen: boolean; readonly last: string | undefined }
  /** A tab that has just come asks the one that follows for the state. */
  | { readonly kind: 'ask' }

/** Gives the way to close it. */
export function openEventLine(options: EventLineOptions): () => void {
  const name = `berth.events.${options.of}.${options.keyId}`
  const tabs = 'locks' in navigator ? openTabs<Word>(name) : undefined
  let connection: AbortController | undefined
  let isLeading = false
  let isOpen: boolean | undefined
  let hasBegun = false
  let isBehind = false
  let last = options.start

  const hear = (word: Exclude<Word, { kind: 'ask' }>): void => {
    if (word.kind === 'event') {
      last = word.event.id
      return options.onEvent(word.event)
    }
    isOpen = word.isOpen
    const begins = isOpen && !hasBegun && !isBehind && mayHaveMissed(options.start, word.last)
    last = word.last ?? last
    options.onState(isOpen)
    if (isOpen && isBehind) options.onMissed()
    else if (begins) options.onBegin()
    hasBegun ||= isOpen
    isBehind = !isOpen
  }
  const say = (word: Exclude<Word, { kind: 'ask' }>): void => {
    // An answer can be on its way when the line is closed or the tab hidden.
    if (connection === undefined) return
    tabs?.tell(word)
    hear(word)
  }
  const follow = async (signal: AbortSignal): Promise<void> => {
    isLeading = true
    while (!signal.aborted) {
      try {
        const line = {
          after: last,
          signal,
          onOpen: (after: string) => say({ kind: 'state', isOpen: true, last: after }),
          onLost: () => say({ kind: 'state', isOpen: false, last }),
        }
        const events: AsyncGenerator<LineEvent, void> =
          options.of === 'everyone' ? client.followAll(line) : client.follow(line)
        for await (const event of events) say({ kind: 'event', event })
      } catch (error) {
        // Signed out or suspended: the next read says so.
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) break
        if (!signal.aborted) say({ kind: 'state', isOpen: false, last })
      }
      await pause(AGAIN_MS, signal)
    }
    isLeading = false
  }
  const lead = async (signal: AbortSignal): Promise<void> => {
    if (tabs === undefined) return follow(signal)
    try {
      await navigator.locks.request(name, { signal }, () => follow(signal))
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
  const look = (): void => {
    if (document.hidden) {
      connection?.abort()
      connection = undefined
      // Nobody can say what is missed from here on; what happens after it is shown again is followed from then.
      isBehind = true
      last = undefined
    } else if (connection === undefined) {
      connection = new AbortController()
      void lead(connection.signal)
      tabs?.tell({ kind: 'ask' })
    }
  }
  tabs?.listen((word) => {
    if (connection === undefined) return
    if (word.kind !== 'ask') hear(word)
    else if (isLeading && isOpen !== undefined) tabs.tell({ kind: 'state', isOpen, last })
  })
  document.addEventListener('visibilitychange', look)
  look()
  return () => {
    document.removeEventListener('visibilitychange', look)
    connection?.abort()
    connection = undefined
    tabs?.close()
  }
}

/** Another tab may have been told events before this one listened. */
function mayHaveMissed(start: string | undefined, last: string | undefined): boolean {
  return start === undefined || last === undefined || BigInt(last) > BigInt(start)
}
