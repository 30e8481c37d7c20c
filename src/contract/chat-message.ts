/** One chat message in the OpenAI format. */
import { z } from 'zod'

/** Parts other than text, such as images, are validated by the engine. */
const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() }).superRefine((part, context) => {
  if (part.type === 'text' && part.text === undefined) requireMember(context, 'text')
})

/** An assistant message can have a tool call or a refusal instead of text. */
const insteadOfContent = ['tool_calls', 'function_call', 'refusal', 'audio'] as const

export const chatMessage = z
  .looseObject({
    role: z.enum(['system', 'assistant', 'user', 'tool', 'developer']),
    content: z
      .union([z.string(), z.array(contentPart)])
      .nullable()
      .optional()
      .describe('Required, unless an assistant message has `tool_calls` instead'),
    name: z.string().nullable().optional(),
    tool_calls: z.array(z.looseObject({})).nullable().optional(),
    tool_call_id: z.string().nullable().optional(),
  })
  .superRefine((message, context) => {
    if (typeof message.content === 'string' || Array.isArray(message.content)) return
    const isReplaced = message.role === 'assistant' && insteadOfContent.some((name) => isPresent(message[name]))
    if (!isReplaced) requireMember(context, 'content', message.content)
  })

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)
}

/** Adds the same issue as for a missing required field. */
function requireMember(context: z.RefinementCtx, name: string, input?: unknown): void {
  context.addIssue({ code: 'invalid_type', expected: 'string', path: [name], input })
}
