/**
 * Embeddings, images, speech and transcripts. The answer is one piece: it is taken complete from the engine, converted to our form,
 * recorded, and only then sent. Each kind of work is a small value with its requests by protocol, its reader and its
 * usage; the flow is the same for all. A client that follows an image or a transcript and disconnects pays for the
 * steps that were reported to it, or for the speech that it was sent; any other client without an answer pays nothing.
 */
import type { Instant } from '../../base/instant.ts'
import { failField, fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { costOf, noUnits, type InferenceUnits } from '../../domain/inference.ts'
import type { Admission, Admitted } from '../money/admission.ts'
import { queueingOf, type Caller } from '../call.ts'
import type { Catalog, Deployment, ServedModel } from '../catalog.ts'
import { defaultModel, refuseModel } from '../dialect/chat-call.ts'
import { collect, type Collected, type OnProgress } from '../upstream/collect.ts'
import type { MediaProgress } from '../upstream/event-body.ts'
import { traceIdOf, tracingOf, type CallHeaders } from '../upstream/trace.ts'
import type { ExchangePorts } from '../dialect/exchange.ts'
import type { EndedCall } from '../money/meter.ts'
import { explainFailure, explainRefusal } from '../failure.ts'
import type { UpstreamRequest } from '../upstream/upstream-call.ts'

const MAX_ANSWER_BYTES = 67_108_864

/** A parsed answer of an engine. */
export interface MediaAnswer {
  readonly body: unknown
  readonly units: InferenceUnits
}

/** One request's work. */
export interface MediaWork {
  /** The operation as recorded. */
  readonly operation: string
  readonly kind: ServedModel['kind']
  /** undefined: the default model of its kind. */
  readonly modelName: string | undefined
  readonly modelField: string
  /** The maximum usage, for which money and tokens are reserved. */
  readonly maxUnits: InferenceUnits
  /** Why a deployment cannot serve the request, with the parameter. undefined: it can. */
  readonly refusal: (deployment: Deployment) => Failure | undefined
  readonly request: (deployment: Deployment, part: number) => Omit<UpstreamRequest, 'extraHeaders'>
  /** Reads the engine's answer. undefined: it is not valid. */
  readonly read: (
    collected: Collected,
    facts: { seconds: number; at: Instant; part: number },
  ) => MediaAnswer | undefined
  /**
   * Set if engines make one item per request. Several items are then requested separately, wherever there is room, and
   * answered and charged as one.
   */
  readonly parts?: {
    readonly count: number
    readonly steps: number
    readonly merge: (answers: readonly MediaAnswer[]) => MediaAnswer
  }
  readonly body: Readonly<Record<string, unknown>>
  /** The same work for models of other kinds. */
  readonly substitutes?: Readonly<Partial<Record<ServedModel['kind'], MediaWork>>>
  /** The usage after so many steps or characters, for work whose progress clients follow. */
  readonly unitsOf?: (done: number) => InferenceUnits
}

/** The client that waits for the answer. */
export interface MediaClient {
  /** Aborts when the client has disconnected. */
  readonly signal: AbortSignal
  /** Receives progress. Absent: the client gets only the answer. */
  readonly onProgress?: OnProgress
  /** Registers a function to call when the client reads again. */
  readonly onDrain?: (resume: () => void) => void
}

export interface MediaPorts extends ExchangePorts {
  readonly admission: Admission
}

/** Media calls are not measured in tokens, and no engine caches their beginning. */
const noPrompt = { promptTokens: 0, prefixes: [], prefixTokens: [] } as const

export class MediaGateway {
  readonly #ports: MediaPorts

  constructor(ports: MediaPorts) {
    this.#ports = ports
  }

  async run(
    catalog: Catalog,
    caller: Caller,
    work: MediaWork,
    headers: CallHeaders,
    client: MediaClient,
  ): Promise<Result<unknown>> {
    const model = work.modelName === undefined ? defaultModel(catalog, work.kind) : catalog.get(work.modelName)
    const refused = refuseModel(
      model,
      work.modelName ?? model?.name ?? `the default for ${work.kind}`,
      caller,
      work.modelField,
    )
    if (refused !== undefined) return refused
    if (model === undefined) return fail('no_deployment', { model: work.modelName ?? work.kind })
    return this.#admit(model, caller, work.substitutes?.[model.kind] ?? work, headers, client)
  }

  async #admit(
    model: ServedModel,
    caller: Caller,
    work: MediaWork,
    headers: CallHeaders,
    client: MediaClient,
  ): Promise<Result<unknown>> {
    const unable = refuseKind(model, work) ?? refuseAll(model, work)
    if (unable !== undefined) return unable
    const worst = costOf(model.prices, work.maxUnits)
    const tokens = work.maxUnits.inputTokens + work.maxUnits.outputTokens
    const admitted = await this.#ports.admission.admit({ caller, tokens, worst, countKey: false })
    if (!admitted.ok) return admitted
    return this.#serve(model, caller, work, headers, client, admitted.value)
  }

  async #serve(
    model: ServedModel,
    caller: Caller,
    work: MediaWork,
    headers: CallHeaders,
    client: MediaClient,
    admitted: Admitted,
  ): Promise<Result<unknown>> {
    const startedAt = performance.now()
    const seconds = (): number => (performance.now() - startedAt) / 1_000
    const traceId = traceIdOf(headers)
    let reported = 0
    const report = (progress: MediaProgress): unknown => {
      reported = Math.max(reported, doneBy(progress))
      return client.onProgress?.(progress)
    }
    const warn: Warn = (deployment, detail) => {
      const { requestId } = headers
      const { accountId } = caller
      this.#ports.warn({ requestId, accountId, model: model.name, deployment: deployment?.id, detail })
    }
    const askFor = (part: number): ReturnType<typeof collect> =>
      collect(
        this.#ports.dispatcher,
        {
          model,
          ...queueingOf(caller),
          ...noPrompt,
          request: (deployment) => ({
            ...work.request(deployment, part),
            extraHeaders: tracingOf({ traceId, requestId: headers.requestId }),
          }),
          session: headers.session,
          accepts: (deployment) => refusal(model, work, deployment) === undefined,
        },
        {
          ...client,
          maxBytes: MAX_ANSWER_BYTES,
          onProgress: client.onProgress && ((progress) => report(overallProgress(progress, work, part))),
        },
      )
    let { collected, outcome } = await this.#askPart(askFor, model, work, {
      part: 0,
      seconds,
      reported: () => reported,
      warn,
    })
    const firstByteMs = collected.ok ? collected.value.firstByteMs : null
    const answers = outcome.answer === undefined ? [] : [outcome.answer]
    for (let part = 1; part < (work.parts?.count ?? 1) && outcome.answer !== undefined; part += 1) {
      ;({ collected, outcome } = await this.#askPart(askFor, model, work, {
        part,
        seconds,
        reported: () => reported,
        warn,
      }))
      if (outcome.answer !== undefined) answers.push(outcome.answer)
    }
    if (work.parts !== undefined && outcome.answer !== undefined) {
      const { body, units } = work.parts.merge(answers)
      outcome = { ...outcome, units, result: ok(body) }
    }
    const ended: EndedCall = {
      requestId: headers.requestId,
      accountId: caller.accountId,
      apiKeyId: caller.keyId,
      operation: work.operation,
      model: model.name,
      deployment: outcome.deployment,
      at: this.#ports.clock.now(),
      status: outcome.status,
      outcome: outcome.outcome,
      reason: outcome.result.ok ? null : (outcome.result.reason ?? outcome.result.kind),
      streamed: client.onProgress !== undefined,
      units: outcome.units,
      cost: costOf(model.prices, outcome.units),
      firstByteMs,
      totalMs: Math.round(seconds() * 1_000),
      traceId,
      requestBody: caller.account.keepsBodies ? JSON.stringify(work.body) : null,
      responseBody: null,
    }
    admitted.leave(outcome.units.inputTokens + outcome.units.outputTokens)
    this.#ports.ended(ended)
    await new Promise<void>((done) => this.#ports.meter.finish(admitted.reservation, ended, done))
    return outcome.result
  }

  async #askPart(
    askFor: (part: number) => ReturnType<typeof collect>,
    model: ServedModel,
    work: MediaWork,
    { part, seconds, reported, warn }: { part: number; seconds: () => number; reported: () => number; warn: Warn },
  ): Promise<{ collected: Awaited<ReturnType<typeof collect>>; outcome: AnswerOutcome }> {
    const collected = await askFor(part)
    const facts = { seconds: seconds(), reported: reported(), part, warn }
    return { collected, outcome: this.#outcomeOf(collected, model, work, facts) }
  }

  #outcomeOf(
    collected: Awaited<ReturnType<typeof collect>>,
    model: ServedModel,
    work: MediaWork,
    { seconds, reported, part, warn }: { seconds: number; reported: number; part: number; warn: Warn },
  ): AnswerOutcome {
    if (!collected.ok) {
      if (collected.failure.kind === 'gone') {
        return {
          deployment: collected.failure.deployment?.id ?? null,
          units: work.unitsOf?.(reported) ?? nothing.units,
          status: 499,
          outcome: 'cut',
          result: fail('client_disconnected'),
        }
      }
      const { failure } = collected
      warn(failure.deployment, failure.detail)
      return { ...nothing, deployment: failure.deployment?.id ?? null, result: explainFailure(failure, model.name) }
    }
    const { head, body } = collected.value
    const deployment = head.deployment.id
    if (head.status !== 200) {
      const result = explainRefusal(head.status, body.toString('latin1'), model)
      if (result.kind !== 'invalid') warn(head.deployment, `answered with status ${head.status}`)
      return { ...nothing, deployment, status: head.status, result }
    }
    const answer = readSafely(work, collected.value, { seconds, at: this.#ports.clock.now(), part })
    if (answer !== undefined) {
      return { deployment, status: 200, outcome: 'answered', units: answer.units, answer, result: ok(answer.body) }
    }
    const detail = "the engine's answer is not what was requested"
    warn(head.deployment, detail)
    const failure = { kind: 'broken' as const, detail, deployment: head.deployment, retryAfterMs: undefined }
    return { ...nothing, deployment, result: explainFailure(failure, model.name) }
  }
}

/** The number of steps of an image, or of characters of a text, that are done. */
function doneBy(progress: MediaProgress): number {
  if (progress.type === 'queued' || progress.type === 'partial') return 0
  return progress.type === 'audio' ? progress.characters : progress.step
}

/** The total progress of a request with several parts. */
function overallProgress(progress: MediaProgress, { parts }: MediaWork, part: number): MediaProgress {
  if (parts === undefined || progress.type !== 'progress') return progress
  return { type: 'progress', step: part * parts.steps + progress.step, steps: parts.count * parts.steps }
}

type Warn = (deployment: Deployment | undefined, detail: string) => void

/** An answer that cannot be read still ends in a record. */
function readSafely(work: MediaWork, ...answer: Parameters<MediaWork['read']>): MediaAnswer | undefined {
  try {
    return work.read(...answer)
  } catch {
    return undefined
  }
}

interface AnswerOutcome {
  readonly deployment: string | null
  readonly status: number
  readonly outcome: EndedCall['outcome']
  readonly units: InferenceUnits
  /** Absent: the request failed, or the client has disconnected. */
  readonly answer?: MediaAnswer
  readonly result: Result<unknown>
}

const nothing = {
  deployment: null,
  status: 503,
  outcome: 'failed' as const,
  units: noUnits,
}

function refuseKind(model: ServedModel, work: MediaWork): Failure | undefined {
  // A chat model may also compute embeddings.
  if (model.kind === work.kind || (work.kind === 'embedding' && model.kind === 'chat')) return undefined
  return wrongKind(model, work)
}

/** If no deployment of the model can serve the request, the first one's reason is returned. */
function refuseAll(model: ServedModel, work: MediaWork): Failure | undefined {
  const reasons = model.deployments.map((deployment) => refusal(model, work, deployment))
  return reasons.length > 0 && reasons.every((reason) => reason !== undefined) ? reasons[0] : undefined
}

/** Unlike other chat servers, our own engine never embeds. */
function refusal(model: ServedModel, work: MediaWork, deployment: Deployment): Failure | undefined {
  const isForeign = model.kind !== work.kind && deployment.protocol === 'embedded'
  return isForeign ? wrongKind(model, work) : work.refusal(deployment)
}

function wrongKind({ name, kind }: ServedModel, { modelField }: MediaWork): Failure {
  return failField([modelField], 'wrong_model_kind', { model: name, kind })
}
