/** Conversations that this browser keeps, newest first: at most a few dozen, for the signed-in account only. */
import { useState } from 'react'
import { z } from 'zod'
import { systemClock } from '../../../src/base/instant.ts'
import { useMe } from '../../api/me.ts'
import { useStored } from '../../ui/stored.ts'
import type { Turn } from './conversation.ts'

const MAX_KEPT = 30
/** Browsers give a site about five million characters. */
const MAX_CHARS = 1_000_000
const TITLE_CHARS = 80

const turn = z.object({
  id: z.number(),
  model: z.string(),
  prompt: z.string(),
  state: z.enum(['answered', 'stopped', 'failed']),
  text: z.string(),
  requestId: z.string(),
  finishReason: z.string().nullable(),
  firstTokenMs: z.number().nullable(),
  streamMs: z.number().nullable(),
})

const keptConversation = z.object({ id: z.string(), title: z.string(), system: z.string(), turns: z.array(turn) })
type KeptConversation = z.output<typeof keptConversation>

function readKept(stored: unknown): KeptConversation[] | undefined {
  return z.array(keptConversation).max(MAX_KEPT).safeParse(stored).data
}

export interface Kept {
  readonly all: readonly KeptConversation[]
  /** The conversation shown; a new one has no turns yet. */
  readonly current: KeptConversation
  /** Changes when another conversation is opened, but not with new turns. */
  readonly open: (id: string) => void
  readonly begin: () => void
  readonly keep: (turns: readonly Turn[], system: string) => void
  readonly clearAll: () => void
}

export function useKept(): Kept {
  const { account } = useMe()
  const [all, setAll] = useStored(`berth.chat.${account.id}`, readKept, [])
  const [current, setCurrent] = useState<KeptConversation>(emptyConversation)
  return {
    all,
    current,
    open: (id) => setCurrent(all.find((one) => one.id === id) ?? emptyConversation()),
    begin: () => setCurrent(emptyConversation()),
    keep: (turns, system) => {
      const others = all.filter(({ id }) => id !== current.id)
      const over = turns.flatMap((one) => (isOver(one) ? [keptTurn(one)] : []))
      if (over.length === 0) return setAll(others)
      const title = (over[0]?.prompt ?? '').slice(0, TITLE_CHARS)
      setAll(fitting([{ id: current.id, title, system, turns: over }, ...others]))
    },
    clearAll: () => {
      setAll([])
      setCurrent(emptyConversation())
    },
  }
}

/** The turns of a stored conversation. Costs are read again; errors and usage are not stored. */
export function turnsOf({ turns }: KeptConversation): Turn[] {
  return turns.map((one) => ({ ...one, usage: null, error: null }))
}

function emptyConversation(): KeptConversation {
  const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1))
  return { id: `${systemClock.now()}-${drawn}`, title: '', system: '', turns: [] }
}

function isOver({ state }: Turn): boolean {
  return state !== 'waiting' && state !== 'streaming'
}

function keptTurn({ usage: _usage, error: _error, ...parts }: Turn): z.output<typeof turn> {
  return { ...parts, state: parts.state === 'answered' || parts.state === 'failed' ? parts.state : 'stopped' }
}

/** Drops the oldest conversations until the rest fits. */
function fitting(all: readonly KeptConversation[]): KeptConversation[] {
  const newest = all.slice(0, MAX_KEPT)
  while (newest.length > 1 && JSON.stringify(newest).length > MAX_CHARS) newest.pop()
  return newest
}
