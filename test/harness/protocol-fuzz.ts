/** Valid bodies of the protocols beside chats, for `fuzzedBody`. */
import { below, pick, texts, type Json, type Random, type ValidBody } from './chat-fuzz.ts'

const noSchema = { type: 'object', properties: {} }

const optional = (random: Random, members: Json): Json =>
  Object.fromEntries(Object.entries(members).filter(() => random() < 0.2))

const manyOf = (random: Random, make: (random: Random, at: number) => Json): Json[] =>
  Array.from({ length: 1 + below(random, 4) }, (_, at) => make(random, at))

export const validMessages: ValidBody = (random, model) => {
  const turns = manyOf(random, validTurn)
  return {
    model,
    max_tokens: 1 + below(random, 20),
    messages: [...turns, { role: 'user', content: pick(random, texts) }],
    ...optional(random, {
      system: pick(random, ['Be brief.', [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]]),
      temperature: pick(random, [0, 0.5, 1, null]),
      top_k: 5,
      stop_sequences: ['a', 'b'],
      stream: random() < 0.5,
      thinking: pick(random, [{ type: 'adaptive' }, { type: 'enabled', budget_tokens: 1_024 }, { type: 'disabled' }]),
      tools: [
        { name: 'look', input_schema: noSchema },
        { type: 'web_search_20260318', name: 'web_search' },
      ],
      tool_choice: { type: pick(random, ['auto', 'none']) },
      output_config: { effort: 'high', format: { type: 'json_schema', schema: noSchema } },
      metadata: { user_id: pick(random, texts) },
      field_of_next_year: pick<unknown>(random, [1, [{ a: null }]]),
    }),
  }
}

function validTurn(random: Random, at: number): Json {
  const text = pick(random, texts)
  const part = pick<Json>(random, [
    { role: 'user', content: text },
    { role: 'system', content: 'A note.' },
    {
      role: 'user',
      content: [
        { type: 'text', text },
        { type: 'document', source: { type: 'text', data: text } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: text, signature: 's' },
        { type: 'text', text },
      ],
    },
    { role: 'assistant', content: [{ type: 'tool_use', id: `call_${at}`, name: 'look', input: { text } }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: `call_${at - 1}`, content: text, is_error: true }] },
  ])
  return part
}

export const validResponse: ValidBody = (random, model) => ({
  model,
  input: random() < 0.2 ? pick(random, texts.filter(Boolean)) : manyOf(random, validItem),
  ...optional(random, {
    instructions: pick(random, ['Be brief.', null]),
    max_output_tokens: 1 + below(random, 20),
    stream: random() < 0.5,
    store: random() < 0.5,
    include: ['reasoning.encrypted_content'],
    reasoning: { effort: pick(random, ['none', 'low', 'xhigh', null]) },
    text: { format: pick<Json>(random, [{ type: 'text' }, { type: 'json_object' }]) },
    tools: [{ type: 'function', name: 'look', parameters: noSchema }, { type: 'web_search' }],
    tool_choice: pick(random, ['auto', 'none']),
    metadata: { one: 'two' },
    prompt_cache_key: 'ada',
    temperature: pick(random, [0, 1, null]),
    previous_response_id: pick(random, [null, 'resp_1']),
    field_of_next_year: 1,
  }),
})

function validItem(random: Random, at: number): Json {
  const text = pick(random, texts)
  return pick<Json>(random, [
    { role: 'user', content: text },
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] },
    { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text }] },
    { type: 'function_call', call_id: `call_${at}`, name: 'look', arguments: '{}' },
    { type: 'function_call_output', call_id: `call_${at - 1}`, output: text },
    { type: 'item_reference', id: 'msg_1' },
  ])
}

export const validRanking: ValidBody = (random, model) => ({
  model,
  query: pick(random, texts.filter(Boolean)),
  documents: manyOf(random, () => ({ text: pick(random, texts.filter(Boolean)) })),
  ...optional(random, { top_n: 1 + below(random, 3), return_documents: random() < 0.5, field_of_next_year: 'é' }),
})
