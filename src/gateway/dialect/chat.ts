/** `POST /v1/chat/completions`: the form that engines know best. */
import { ok } from '../../contract/result.ts'
import { writeMessages } from './chat-body.ts'
import type { Dialect } from './dialect.ts'
import { chatForm } from './engine-request.ts'
import { rewriteAnswers } from './rewritten-answer.ts'

export const chatAnswer = rewriteAnswers({ idPrefix: 'chatcmpl', object: 'chat.completion.chunk', opensWithRole: true })

export const chat: Dialect = {
  operation: 'chat',
  read: (body) => ok({ form: chatForm, body, messages: writeMessages(body), answer: chatAnswer }),
}
