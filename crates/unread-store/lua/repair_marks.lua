-- Writes marks that are missing. KEYS: marks. ARGV: per mark: generation, offset, src_epoch, src_offset.
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then
    local mark = i * 4 - 3
    redis.call('HSET', key, 'generation', ARGV[mark],
      'offset', ARGV[mark + 1], 'src_epoch', ARGV[mark + 2], 'src_offset', ARGV[mark + 3])
  end
end
return 1
