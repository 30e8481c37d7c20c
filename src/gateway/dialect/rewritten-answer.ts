/** Answers in the form that the engine wrote them in: only our id and model name replace the engine's. */
import { asLatin1, ChatStream, findMember, type EventForm } from './chat-stream.ts'
import type { AnswerForm } from './answer-form.ts'

export const WAITING_COMMENT = ': waiting for the model to start\n\n'

export interface RewrittenForm extends EventForm {
  readonly idPrefix: string
}

export function rewriteAnswers(form: RewrittenForm): AnswerForm {
  const idOf = (requestId: string): string => `${form.idPrefix}-${requestId.slice(4)}`
  return {
    waiting: WAITING_COMMENT,
    write: ({ requestId, model }, { text, value }) => {
      const withId = rename(text, 'id', value['id'], idOf(requestId))
      return rename(withId, 'model', value['model'], model.name)
    },
    openStream: ({ requestId, model, includeUsage }, now) =>
      new ChatStream({
        id: idOf(requestId),
        model: model.name,
        form,
        created: Math.floor(now / 1_000),
        includeUsage,
      }),
  }
}

/** Replaces the engine's name with ours. */
function rename(text: string, name: string, engineName: unknown, ours: string): string {
  if (engineName === ours) return text
  const member = `"${name}":${asLatin1(JSON.stringify(ours))}`
  const raw = typeof engineName === 'string' ? findMember(text, name, engineName) : undefined
  return raw === undefined ? text.replace('{', () => `{${member},`) : text.replace(raw, () => member)
}
