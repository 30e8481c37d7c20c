/** The package ships no declarations; its exports are those of `onnxruntime-common`. */
declare module 'onnxruntime-node' {
  export * from 'onnxruntime-common'
}
