/** The starts and ends of containers by the word of their Docker daemons, whatever agents and servers say. */
import { once } from 'node:events'
import http from 'node:http'
import { z } from 'zod'
import { instantOf, type Instant } from '../../src/base/instant.ts'
import { TAG_LABEL } from '../../src/runtimes/docker/container-order.ts'
import type { DockerLab } from './docker-lab.ts'

export interface Run {
  readonly rentalId: number
  readonly startedAt: Instant
  readonly endedAt: Instant | null
}

export interface Witness {
  /** In the order of their starts; a container that starts again has run twice. */
  runs(): readonly Run[]
  close(): void
}

const event = z.object({
  Action: z.enum(['start', 'die']),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
  timeNano: z.number(),
})
const NANOS_PER_MS = 1_000_000

export async function watchContainers(daemons: ReadonlyArray<Pick<DockerLab, 'socketPath'>>): Promise<Witness> {
  const runs: Array<Run & { readonly container: string }> = []
  const note = (line: string): void => {
    const { Action, Actor, timeNano } = event.parse(JSON.parse(line))
    // berth-<installation>-<rental>-<nonce>
    const rentalId = Number(Actor.Attributes[TAG_LABEL]?.split('-').at(-2))
    const at = instantOf(timeNano / NANOS_PER_MS)
    if (Action === 'start') runs.push({ container: Actor.ID, rentalId, startedAt: at, endedAt: null })
    const last = runs.findLastIndex((one) => one.container === Actor.ID && one.endedAt === null)
    const run = runs[last]
    if (Action === 'die' && run !== undefined) runs[last] = { ...run, endedAt: at }
  }
  const requests = await Promise.all(daemons.map(({ socketPath }) => follow(socketPath, note)))
  return {
    runs: () => runs,
    close: () => requests.forEach((request) => request.destroy()),
  }
}

async function follow(socketPath: string, note: (line: string) => void): Promise<http.ClientRequest> {
  const filters = encodeURIComponent(JSON.stringify({ type: ['container'], event: ['start', 'die'] }))
  const request = http.get({ socketPath, path: `/events?filters=${filters}` })
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let rest = ''
  response.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    lines.filter(Boolean).forEach(note)
  })
  // The test ends it, or its daemon does.
  request.on('error', () => {})
  return request
}
