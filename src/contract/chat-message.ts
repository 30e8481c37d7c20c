/** One message of a chat, as clients of the convention send it. */
import { z } from 'zod'

/** Parts that are no text (pictures) have a shape of their own, which is the engine's to judge. */
const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() }).superRefine((part, context) => {
  if (part.type === 'text' && part.text === undefined) requireMember(context, 'text')
})

/** An assistant may have called a tool, or refused, in place of saying something. */
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
    const isReplaced = message.role === 'assistant' && insteadOfContent.some((name) => isSomething(message[name]))
    if (!isReplaced) requireMember(context, 'content', message.content)
  })

function isSomething(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)
}

/** As if the schema had asked for it. */
function requireMember(context: z.RefinementCtx, name: string, input?: unknown): void {
  context.addIssue({ code: 'invalid_type', expected: 'string', path: [name], input })
}
