/** Node's WebAssembly. Its types come with the DOM types, which the rest of the program must not see. */

export interface WasmMemory {
  readonly buffer: ArrayBuffer
}

export interface WasmInstance {
  readonly exports: Readonly<Record<string, unknown>>
}

interface WasmApi {
  compile(bytes: Uint8Array): Promise<WebAssembly.Module>
  readonly Instance: new (module: WebAssembly.Module, imports: object) => WasmInstance
  readonly Memory: new (size: { readonly initial: number }) => WasmMemory
}

export const wasm = (globalThis as unknown as { readonly WebAssembly: WasmApi }).WebAssembly
