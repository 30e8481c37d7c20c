import { test, inject } from 'vitest'
import { openBrowser } from '../harness/browser.ts'
import { writeFileSync } from 'node:fs'

test('measure', async () => {
  const out: string[] = []
  const t0 = performance.now()
  const browser = await openBrowser({ env: { BERTH_MOCK_SCALE: '358' } })
  out.push(`server+browser start ${Math.round(performance.now() - t0)} ms`)
  for (let i = 0; i < 3; i++) {
    const t = performance.now()
    const r = await fetch(`${browser.server.url}/v1/marketplace`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"filters":{}}' })
    const tHead = performance.now() - t
    const text = await r.text()
    out.push(`plain listMachines 10,000: ${text.length} bytes, head ${Math.round(tHead)} ms, all ${Math.round(performance.now() - t)} ms, encoding ${r.headers.get('content-encoding')}`)
  }
  for (const limit of [200, 2500]) {
    const t = performance.now()
    const r = await fetch(`${browser.server.url}/v1/marketplace?limit=${limit}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"filters":{}}' })
    const text = await r.text()
    out.push(`listMachines ${limit}: ${text.length} bytes, ${Math.round(performance.now() - t)} ms`)
  }
  const { page } = await browser.open(browser.server.demoKey)
  await page.addInitScript(() => {
    const w = globalThis as any
    w.__long = []
    new PerformanceObserver((list) => { for (const e of list.getEntries()) w.__long.push([Math.round(e.startTime), Math.round(e.duration)]) }).observe({ type: 'longtask', buffered: true })
    const ob = new MutationObserver(() => { if (w.__firstRow === undefined && document.querySelector('[role=row][aria-rowindex="2"]')) w.__firstRow = performance.now() })
    ob.observe(document, { childList: true, subtree: true })
  })
  const tv = performance.now()
  await page.goto('/marketplace')
  await page.getByText('10,024 machines', { exact: true }).waitFor()
  out.push(`all 10,024 listed after ${Math.round(performance.now() - tv)} ms of page time`)
  const facts = await page.evaluate(() => {
    const w = globalThis as any
    const reads = performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/marketplace')).map((e: any) => [Math.round(e.startTime), Math.round(e.responseStart), Math.round(e.responseEnd), e.decodedBodySize])
    return { reads, firstRow: Math.round(w.__firstRow), long: w.__long }
  })
  out.push(JSON.stringify(facts))
  // scroll through all
  const scroll = await page.evaluate(async () => {
    const w = globalThis as any
    w.__long = []
    const box = document.querySelector('[role=region][aria-label=Machines]') as HTMLElement
    const frames: number[] = []
    let last = performance.now()
    const t0 = last
    const end = box.scrollHeight
    let most = 0
    while (box.scrollTop + box.clientHeight < end - 1) {
      box.scrollTop += 1500
      await new Promise((r) => requestAnimationFrame(r))
      const now = performance.now(); frames.push(now - last); last = now
      most = Math.max(most, document.querySelectorAll('[role=row]').length)
    }
    frames.sort((a, b) => a - b)
    return { ms: Math.round(last - t0), frames: frames.length, p50: frames[Math.floor(frames.length / 2)], p99: frames[Math.floor(frames.length * 0.99)], worst: frames.at(-1), most, long: w.__long }
  })
  out.push(JSON.stringify(scroll))
  // fine scroll 1000 frames of 100 px
  const fine = await page.evaluate(async () => {
    const w = globalThis as any
    w.__long = []
    const box = document.querySelector('[role=region][aria-label=Machines]') as HTMLElement
    box.scrollTop = 0
    const frames: number[] = []
    let last = performance.now()
    for (let i = 0; i < 300; i++) { box.scrollTop += 100; await new Promise((r) => requestAnimationFrame(r)); const now = performance.now(); frames.push(now - last); last = now }
    frames.sort((a, b) => a - b)
    return { p50: frames[150], p99: frames[297], worst: frames.at(-1), long: w.__long }
  })
  out.push('fine ' + JSON.stringify(fine))
  await page.evaluate(() => { (globalThis as any).__long = [] })
  const tt = performance.now()
  await page.getByLabel('Search').pressSequentially('fra epyc 4090')
  await page.getByText('716 of 10,024 machines').waitFor()
  out.push(`typed 13 letters until the count was there ${Math.round(performance.now() - tt)} ms; long ${JSON.stringify(await page.evaluate(() => (globalThis as any).__long))}`)
  await page.evaluate(() => { (globalThis as any).__long = [] })
  await page.getByLabel('Search').fill('')
  await page.getByText('10,024 machines', { exact: true }).waitFor()
  await page.evaluate(() => { (globalThis as any).__long = [] })
  await page.getByRole('button', { name: 'RAM', exact: true }).click()
  await page.locator('[aria-sort=ascending]', { hasText: 'RAM' }).waitFor()
  out.push(`sort long ${JSON.stringify(await page.evaluate(() => (globalThis as any).__long))}`)
  writeFileSync('/tmp/measure.txt', out.join('\n'))
  await browser.close()
  void inject
}, 200_000)
