/**
 * Prints the CPU seconds of each test file, with everything that it starts. Wall time says little on a busy machine.
 * `BERTH_TEST_CPU=true npm test -- <filter…>` runs one file after the other, in a control group of its own (root).
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

const [first, second] = ['/sys/fs/cgroup/cpuacct', '/sys/fs/cgroup']

export default class CpuReport implements Reporter {
  readonly #group = path.join(existsSync(first) ? first : second, `berth-test-${process.pid}`)
  readonly #spent = new Map<string, number>()
  #before = 0

  onInit(): void {
    mkdirSync(this.#group)
    writeFileSync(path.join(this.#group, 'cgroup.procs'), String(process.pid))
  }

  onTestModuleQueued(): void {
    this.#before = this.#cpuSeconds()
  }

  onTestModuleEnd(module: TestModule): void {
    const now = this.#cpuSeconds()
    this.#spent.set(module.relativeModuleId, now - this.#before)
    process.stdout.write(`CPU ${(now - this.#before).toFixed(1)} s ${module.relativeModuleId}\n`)
    this.#before = now
  }

  onTestRunEnd(): void {
    const files = [...this.#spent].toSorted(([, one], [, other]) => other - one)
    const total = files.reduce((sum, [, seconds]) => sum + seconds, 0)
    process.stdout.write(files.map(([file, seconds]) => `${seconds.toFixed(1).padStart(8)} ${file}\n`).join(''))
    process.stdout.write(`${total.toFixed(1).padStart(8)} CPU seconds in ${files.length} files\n`)
  }

  #cpuSeconds(): number {
    if (this.#group.startsWith(`${first}/`)) return Number(this.#read('cpuacct.usage')) / 1e9
    return Number(/usage_usec (\d+)/.exec(this.#read('cpu.stat'))?.[1]) / 1e6
  }

  #read(file: string): string {
    return readFileSync(path.join(this.#group, file), 'utf8')
  }
}
