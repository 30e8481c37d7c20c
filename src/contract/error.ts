/** Error bodies. v2 has one schema per status, named after its code; v1 has one body that every known client reads. */
import { z } from 'zod'

export const v2Codes = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  429: 'TOO_MANY_REQUESTS',
  500: 'INTERNAL_SERVER_ERROR',
  503: 'SERVICE_UNAVAILABLE',
} as const
export type V2Status = keyof typeof v2Codes

const issue = z.object({
  code: z.string(),
  path: z.array(z.union([z.string(), z.number()])),
  message: z.string(),
})

export function v2Error(status: V2Status) {
  return z
    .object({
      message: z.string(),
      code: z.literal(v2Codes[status]),
      reason: z.string().optional().describe('Stable, for programs; listed in docs/errors.md'),
      issues: z.array(issue).optional(),
    })
    .meta({ id: `error.${v2Codes[status]}` })
}

export const v1Error = z
  .object({
    object: z.literal('error'),
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.number(),
    error_code: z.number(),
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.union([z.number(), z.literal('context_length_exceeded')]),
    }),
    reason: z.string().optional(),
    detail: z
      .array(
        z.object({
          type: z.string(),
          loc: z.array(z.union([z.string(), z.number()])),
          msg: z.string(),
          input: z.unknown(),
        }),
      )
      .optional(),
  })
  .meta({ id: 'V1Error' })

export const openaiError = v1Error
  .extend({ error: v1Error.shape.error.extend({ code: z.string().nullable() }) })
  .meta({ id: 'OpenaiError' })
