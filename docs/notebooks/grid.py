# %% [markdown]
# # Noise

# %%
print(1)
