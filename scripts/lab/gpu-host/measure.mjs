#!/usr/bin/env node
/**
 * Asks an OpenAI-style server for streams of a fixed length: time to first token and tokens a second, alone and at once.
 * Usage: measure.mjs NAME URL MODEL [KEY]
 */
const [name, url, model, key] = process.argv.slice(2)
const TOKENS = 256
const PROMPT = 'tell me about the ships in the harbour and where they are bound '.repeat(8)

async function stream(seed) {
  const began = performance.now()
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: `${seed} ${PROMPT}` }],
      max_tokens: TOKENS,
      temperature: 1,
      seed,
      stream: true,
      stream_options: { include_usage: true },
    }),
  })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  let first
  let tokens = 0
  let rest = ''
  const decoder = new TextDecoder()
  for await (const bytes of answer.body) {
    rest += decoder.decode(bytes, { stream: true })
    const lines = rest.split('\n')
    rest = lines.pop()
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue
      const event = JSON.parse(line.slice(6))
      if (event.error !== undefined) throw new Error(JSON.stringify(event.error))
      if ((event.choices?.[0]?.delta?.content ?? '') !== '') first ??= performance.now()
      tokens = event.usage?.completion_tokens ?? tokens
    }
  }
  const end = performance.now()
  return { firstMs: (first ?? end) - began, ms: end - began, tokens }
}

const sorted = (numbers) => numbers.toSorted((a, b) => a - b)
const median = (numbers) => sorted(numbers)[Math.floor(numbers.length / 2)]

async function measure(atOnce, rounds) {
  const runs = []
  let seconds = 0
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    runs.push(...(await Promise.all(Array.from({ length: atOnce }, (_, i) => stream(round * atOnce + i + 1)))))
    seconds += (performance.now() - began) / 1000
  }
  const tokens = runs.reduce((sum, run) => sum + run.tokens, 0)
  return {
    name,
    atOnce,
    streams: runs.length,
    firstTokenMedianMs: Number(median(runs.map((run) => run.firstMs)).toFixed(2)),
    firstTokenMaxMs: Number(Math.max(...runs.map((run) => run.firstMs)).toFixed(2)),
    tokensPerSecond: Number((tokens / seconds).toFixed(1)),
    tokens,
  }
}

await measure(1, 2)
for (const [atOnce, rounds] of [
  [1, 8],
  [32, 3],
])
  console.log(JSON.stringify(await measure(atOnce, rounds)))
