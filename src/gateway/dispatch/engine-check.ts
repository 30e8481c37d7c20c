/**
 * The smallest possible request for each kind of engine, sent by the gateway itself. When customers' calls fail, it
 * tells a broken engine from one that got invalid input.
 */
import { silentWav } from '../../base/sound/wav.ts'
import type { ModelKind } from '../../domain/inference.ts'
import type { Deployment } from '../catalog.ts'
import { embeddingWork, imageWork } from '../media/media-work.ts'
import { rerankWork } from '../media/rerank.ts'
import { speechWork } from '../media/speech.ts'
import { transcriptionWork } from '../media/transcription.ts'
import type { UpstreamRequest } from '../upstream/upstream-call.ts'

/** Lets the operator of an engine recognize the check. */
const HEADERS = 'X-Berth-Check: 1\r\n'
const TEXT = 'Hi'

export function checkRequestOf(kind: ModelKind, deployment: Deployment): UpstreamRequest {
  return { ...workRequest(kind, deployment), extraHeaders: HEADERS }
}

function workRequest(kind: ModelKind, deployment: Deployment): Omit<UpstreamRequest, 'extraHeaders'> {
  const model = deployment.upstreamModel
  switch (kind) {
    case 'transcription': {
      const work = transcriptionWork({ response_format: 'json' }, silentWav(1))
      if (!work.ok) throw new Error('silence is not a recording')
      return work.value.request(deployment, 0)
    }
    case 'chat': {
      const body = { model, messages: [{ role: 'user', content: TEXT }], max_tokens: 1, ...deployment.members }
      const path = '/v1/chat/completions'
      return { path, contentType: 'application/json', body: [Buffer.from(JSON.stringify(body))] }
    }
    case 'embedding':
      return embeddingWork({ model, input: TEXT }).request(deployment, 0)
    case 'rerank':
      return rerankWork({ model, query: TEXT, documents: [TEXT] }).request(deployment, 0)
    case 'image': {
      const size = { width: 128, height: 128, steps: 1, cfg_scale: 1 }
      const form = { named: new Set<string>(), modelField: 'model' } as const
      return imageWork({ model_name: model, prompt: TEXT, ...size }, form).request(deployment, 0)
    }
    case 'speech':
      return speechWork({ model, text: TEXT, speed: 1 }).request(deployment, 0)
  }
}

/** Whether the engine works, by the status of its answer; busy or a rejected request is no fault. */
export function isHealthyStatus(status: number | undefined): boolean {
  return status !== undefined && status < 500 && ![401, 403, 404, 405, 407].includes(status)
}
