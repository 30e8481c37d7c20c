/**
 * Readiness checks of replicas: the smallest real job of the recipe, through the same link that requests take. Health
 * endpoints of engines answer long before they can serve, so only an answer counts. Checks run beside the passes, one at
 * a time per replica; what they find is written in a transaction of their own.
 */
import http, { type IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { contained } from '../base/net/contained.ts'
import { SECOND_MS } from '../base/instant.ts'
import { mendHead } from '../base/net/mended-head.ts'
import type { App } from '../app/app.ts'
import { becomeReady } from '../app/serving/replica.ts'
import { formBody } from '../base/net/form-body.ts'
import { silentWav } from '../base/sound/wav.ts'
import { isProven, type ReadinessJob } from '../domain/readiness.ts'
import { containerOf } from '../domain/replica-plan.ts'
import { transact } from '../store/platform/database.ts'
import { lockManaged, readVersion, SERVE_WAKE, type ManagedDeployment } from '../store/serving/managed-deployment.ts'
import { listReplicas, noteReplica, type Replica } from '../store/serving/replica.ts'

const MAX_PROBES = 256
/** The delay after a check that got no answer. */
const RETRY_MS = SECOND_MS
const MAX_ANSWER_BYTES = 16_777_216
const MAX_SHOWN_CHARS = 300

export interface Probes {
  /** Starts a check unless one is running or has just ended. */
  check(deployment: ManagedDeployment, replica: Replica): void
}

export function makeProbes(app: App): Probes {
  /** When the next check of each replica may start. null: a check is running. */
  const nextChecks = new Map<string, number | null>()
  return {
    check: (deployment, replica) => {
      const next = nextChecks.get(replica.id)
      if (next === null || (next !== undefined && performance.now() < next)) return
      if (next === undefined && nextChecks.size >= MAX_PROBES) forgetOld(nextChecks)
      nextChecks.set(replica.id, null)
      probe(app, deployment, replica)
        .catch((error: unknown) => app.warn?.(error, `could not check the replica ${replica.id}`))
        .finally(() => nextChecks.set(replica.id, performance.now() + RETRY_MS))
    },
  }
}

function forgetOld(nextChecks: Map<string, number | null>): void {
  for (const [id, next] of nextChecks) if (next !== null && next < performance.now()) nextChecks.delete(id)
}

async function probe(app: App, deployment: ManagedDeployment, replica: Replica): Promise<void> {
  const version = await readVersion(app.database.db, deployment.id, replica.version)
  const container = version === undefined ? undefined : containerOf(deployment, version.spec, '')
  if (container?.ok !== true) return
  const { node: hostId, external_id: workloadId } = replica
  if (hostId === null || workloadId === null) return
  const { port } = replica.endpoint
  const askedAt = app.clock.now()
  const stream = app.dialWorkload?.({ hostId, workloadId, port })
  const problem =
    stream === undefined
      ? 'The host is not connected.'
      : await ask(stream, container.value.readiness, { port, key: app.vault.open(replica.key_sealed) })
  if (problem !== undefined) return noteReplica(app.database.db, replica.id, problem)
  const isReady = await transact(app.database, async (tx) => {
    const locked = await lockManaged(tx, deployment.id)
    const current = (await listReplicas(tx.db, [deployment.id])).find(({ id }) => id === replica.id)
    return locked !== undefined && current !== undefined && (await becomeReady(tx, locked, current, askedAt))
  })
  if (!isReady) return
  app.replicaStart?.(deployment.model, 'ready')
  app.database.onCommit(new Set([SERVE_WAKE]))
}

function bodyOf(job: ReadinessJob): { readonly body: Buffer; readonly type: string } {
  if (job.isRecording === undefined) return { body: Buffer.from(JSON.stringify(job.body)), type: 'application/json' }
  const fields = Object.fromEntries(Object.entries(job.body).map(([name, value]) => [name, String(value)]))
  const file = { field: 'file', name: 'silence.wav', type: 'audio/wav', bytes: silentWav(1) }
  const form = formBody(fields, file, 'berth-readiness-check')
  return { body: Buffer.concat(form.parts), type: form.contentType }
}

/** Returns undefined if the replica has answered; otherwise what it did instead, as text. */
function ask(
  stream: Duplex,
  job: ReadinessJob,
  { port, key }: { readonly port: number; readonly key: string },
): Promise<string | undefined> {
  const { body, type } = bodyOf(job)
  return new Promise((resolve) => {
    const finish = (problem: string | undefined): void => {
      clearTimeout(timer)
      request.destroy()
      stream.destroy()
      resolve(problem)
    }
    const timer = setTimeout(() => finish(`No answer within ${job.timeoutSeconds} s.`), job.timeoutSeconds * SECOND_MS)
    const request = http.request({
      createConnection: () => mendHead(stream),
      method: 'POST',
      path: job.path,
      headers: {
        Host: `127.0.0.1:${port}`,
        'User-Agent': 'berth-readiness-check',
        'Content-Type': type,
        'Content-Length': body.length,
        Authorization: `Bearer ${key}`,
        Connection: 'close',
      },
    })
    const fail = (error: Error): void => finish(`No answer on port ${port}: ${error.message}`)
    request.on('error', fail)
    stream.on('error', fail)
    const read = async (answer: IncomingMessage): Promise<void> => {
      const pieces: Buffer[] = []
      let bytes = 0
      for await (const piece of answer as AsyncIterable<Buffer>) {
        bytes += piece.length
        if (bytes > MAX_ANSWER_BYTES) return finish('The answer to the readiness check is too long.')
        pieces.push(piece)
      }
      const whole = Buffer.concat(pieces)
      const { statusCode = 500 } = answer
      if (isProven(job, statusCode, whole)) return finish(undefined)
      finish(`Answered ${statusCode}: ${whole.toString('utf8').slice(0, MAX_SHOWN_CHARS)}`)
    }
    request.once(
      'response',
      contained(fail, (answer) => {
        read(answer).catch((error: Error) => finish(`The answer broke off: ${error.message}`))
      }),
    )
    request.end(body)
  })
}
