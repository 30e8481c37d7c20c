/** v1 inference on the wire. A server without model engines serves no models, and says so by name. */
import { fail, ok, type Failure } from '../../base/result.ts'
import type { Handlers } from '../handler.ts'

export const inferenceHandlers = {
  listModels: async () => ok({ object: 'list' as const, data: [] }),
  createChatCompletion: async (_app, { body }) => noModel(body.model, 'model'),
  createCompletion: async (_app, { body }) => noModel(body.model, 'model'),
  createEmbedding: async (_app, { body }) => noModel(body.model, 'model'),
  generateImage: async (_app, { body }) => noModel(body.model_name, 'model_name'),
  generateImageBySecondPath: async (_app, { body }) => noModel(body.model_name, 'model_name'),
  generateAudio: async (_app, { body }) => noModel(body.model ?? 'the default voice', 'model'),
} satisfies Partial<Handlers>

function noModel(name: string, param: string): Failure {
  return fail('invalid', `The model ${JSON.stringify(name)} is not served here; GET /v1/models lists those that are`, {
    reason: 'model_not_found',
    issues: [{ code: 'model_not_found', path: [param], message: 'Not a model of this server' }],
  })
}
