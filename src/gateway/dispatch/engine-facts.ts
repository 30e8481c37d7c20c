/** Reads the limits that an engine states. Each kind of engine has its own page for them, or none. */
import type { EngineName } from './engine-metrics.ts'

export interface StatedLimits {
  /** The number of calls that the engine runs at once. */
  readonly capacity: number | null
  /** The number of calls beyond which the engine refuses. */
  readonly refusesAbove: number | null
}

interface FactsPage {
  readonly path: string
  readonly read: (answer: Readonly<Record<string, unknown>>) => StatedLimits
}

const sglang = (path: string): FactsPage => ({
  path,
  read: ({ internal_states: states }) => {
    const ranks = Array.isArray(states) ? (states as ReadonlyArray<Readonly<Record<string, unknown>> | null>) : []
    const slots = ranks.map((rank) => countOf(rank?.['effective_max_running_requests_per_dp']) ?? 0)
    return { capacity: countOf(slots.reduce((sum, count) => sum + count, 0)), refusesAbove: null }
  },
})
const props: FactsPage = {
  path: '/props',
  read: ({ total_slots: slots }) => ({ capacity: countOf(slots), refusesAbove: null }),
}
const info: FactsPage = {
  path: '/info',
  read: ({ max_concurrent_requests: maximum }) => ({ capacity: null, refusesAbove: countOf(maximum) }),
}

/** The pages to try in order. undefined: an engine without known metrics. */
export function factsPages(engine: EngineName | undefined): readonly FactsPage[] {
  switch (engine) {
    case 'sglang':
      return [sglang('/server_info'), sglang('/get_server_info')]
    case 'llama':
      return [props]
    case 'tgi':
    case 'tei':
      return [info]
    case undefined:
      return [props, info]
    case 'vllm':
    case 'trtllm':
    case 'lmdeploy':
    case 'berth':
      return []
  }
}

/** undefined: the page says nothing. */
export function readFacts(page: FactsPage, body: string): StatedLimits | undefined {
  let answer: unknown
  try {
    answer = JSON.parse(body)
  } catch {
    return undefined
  }
  if (typeof answer !== 'object' || answer === null) return undefined
  const stated = page.read(answer as Record<string, unknown>)
  return stated.capacity === null && stated.refusesAbove === null ? undefined : stated
}

function countOf(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : null
}
