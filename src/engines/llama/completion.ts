/**
 * Answers one chat or text completion. The head of a streamed answer is sent with its first token, so a request that
 * fails earlier still gets an error status. A client that disconnects cancels its request, queued or running.
 */
import type { Clock } from '../../base/instant.ts'
import { ok, type Result } from '../../contract/result.ts'
import { formatSse } from '../../base/net/sse.ts'
import { engineFailed, type EngineCall } from '../engine-http.ts'
import { AnswerWriter } from './answer.ts'
import { PlainSink, StreamSink, type Sink } from './answer-sink.ts'
import { RequestUsage, type ChatEngine, type SequencePlace } from './engine.ts'
import type { Job } from './job.ts'
import type { GenerationRequest } from './request.ts'

export async function complete(
  engine: ChatEngine,
  kind: 'chat' | 'completion',
  { body, signal, response }: EngineCall,
  clock: Clock,
): Promise<Result<unknown>> {
  const request = engine.readRequest(kind, body)
  if (!request.ok) return request
  const job = await engine.prepare(request.value)
  if (!job.ok) return job
  const entered = engine.enter(job.value, signal)
  if (!entered.ok) return entered
  const place = await entered.value
  if (place === undefined) throw signal.reason
  try {
    return ok(await generate({ engine, response, request: request.value, job: job.value, place, signal, clock }))
  } catch (error) {
    // The status is already sent: report the error in the stream, then cut the connection.
    if (response.headersSent && !signal.aborted) {
      const event = formatSse({ data: JSON.stringify({ error: engineFailed }) })
      await new Promise((resolve) => response.write(event, resolve))
    }
    throw error
  } finally {
    place.leave()
  }
}

/** Counts the tokens of a chat's prompt, in vLLM's format. Nothing is generated. */
export async function countTokens(engine: ChatEngine, body: unknown): Promise<Result<{ readonly count: number }>> {
  const request = engine.readRequest('chat', body)
  if (!request.ok) return request
  const job = await engine.prepare(request.value)
  return job.ok ? ok({ count: job.value.prompts[0]?.length ?? 0 }) : job
}

interface Work {
  readonly engine: ChatEngine
  readonly response: EngineCall['response']
  readonly request: GenerationRequest
  readonly job: Job
  readonly place: SequencePlace
  readonly signal: AbortSignal
  readonly clock: Clock
}

async function generate({ engine, response, request, job, place, signal, clock }: Work): Promise<object | undefined> {
  const usage = new RequestUsage(job)
  const writer = new AnswerWriter(request.kind, {
    model: engine.model,
    at: clock.now(),
    withLogprobs: job.alternatives !== undefined,
  })
  const sink: Sink = request.stream
    ? new StreamSink(response, writer, { usage, withUsage: request.usage })
    : new PlainSink(writer, usage)
  const choices = job.prompts.length * job.choicesPerPrompt
  // One choice at a time: the prompt is evaluated once for all choices, and many choices of one client take a single
  // place.
  for (let choice = 0; choice < choices; choice += 1) {
    const pieces = engine.generate(place, job, { choice, usage, signal })
    for (;;) {
      const { value, done } = await pieces.next()
      if (done === true && value === undefined) throw signal.reason
      if (done === true) {
        if (value !== undefined) await sink.finish(choice, value)
        break
      }
      await sink.piece(choice, value)
    }
  }
  return sink.end()
}
