/** `POST /v1/completions`: a text that the model continues. */
import { ok } from '../../contract/result.ts'
import type { Dialect } from './dialect.ts'
import { completionForm } from './engine-request.ts'
import { rewriteAnswers } from './rewritten-answer.ts'

const completionAnswer = rewriteAnswers({ idPrefix: 'cmpl', object: 'text_completion', opensWithRole: false })

export const completion: Dialect = {
  operation: 'completion',
  read: (body) => ok({ form: completionForm, body, messages: undefined, answer: completionAnswer }),
}
